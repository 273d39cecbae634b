"""The comparison as data: one flat row a variant, ratios against both fp32 baselines, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reports.collect import Run, Variant

Row = dict[str, Any]

FIRST = ("variant", "format", "path")
MEASURED = (
    "size_bytes",
    "parameters",
    "nonzero_parameters",
    "latency_ms_p50",
    "latency_ms_p95",
    "throughput_per_s",
    "peak_rss_mib",
)
FURTHER = ("cpu_ms_p50", "cold_start_s", "integer_ops")
CLASSIFICATION = ("accuracy", "macro_f1", "label_loyalty", "probability_loyalty", "flips", "ece")
# A graph adds about a percent to its weights; a file beyond that has grown.
GREW = 1 / 1.02
# What a task is judged by, best known first. All of them grow with quality.
QUALITY = ("accuracy", "micro_f1", "macro_f1", "spearman", "pearson", "token_accuracy")

OTHER_TOKENS = (
    "its vocabulary is not the teacher's, so that it was asked for other tokens and the figures cannot be compared"
)


def rows(run: Run) -> list[Row]:
    """One object a variant, all with the same keys in the same order; what is missing is None."""
    return [_row(variant, metric_names(run), _further(run)) for variant in run.variants]


def metric_names(run: Run) -> list[str]:
    """Every metric of the evaluation: the usual ones of classification first, then in the order they were written."""
    usual = CLASSIFICATION if run.task in ("text-classification", "image-classification") else ()
    found = [name for variant in run.variants for name in variant.metrics]
    return list(dict.fromkeys([*usual, *found]))


def quality_name(run: Run) -> str | None:
    """The metric this run is judged by; None where no known one was evaluated."""
    found = {name for variant in run.variants for name in variant.metrics}
    return next((name for name in QUALITY if name in found), None)


def kept(run: Run, variant: Variant) -> float | None:
    """The variant's quality as a share of the teacher's; None where the teacher has none to keep, such as a correlation
    of 0 or below, and where the two were not asked the same."""
    name = quality_name(run)
    if name is None or run.teacher is None or variant.paired is False:
        return None
    ours, full = _value(variant, name), _value(run.teacher, name)
    return ours / full if ours is not None and full is not None and full > 0 else None


def quality(run: Run, variant: Variant) -> float | None:
    """The value of the metric this run is judged by."""
    name = quality_name(run)
    return _value(variant, name) if name else None


@dataclass(frozen=True)
class Baseline:
    """One of the two fp32 models that gains are given against, and how it is called in words."""

    variant: Variant
    words: str
    short: str

    def gain(self, variant: Variant, key: str) -> float | None:
        """How many times smaller or faster: baseline / variant; None where either is not measured."""
        ours, full = variant.measurement.get(key), self.variant.measurement.get(key)
        return full / ours if ours and full else None


def grew(run: Run, variant: Variant) -> bool:
    """True for a file clearly larger than that of one of the fp32 baselines."""
    return any((base.gain(variant, "size_bytes") or 1) < GREW for base in baselines(run))


def baselines(run: Run) -> list[Baseline]:
    """The teacher in PyTorch and in ONNX Runtime, as far as the run has them."""
    both = [(run.teacher, "PyTorch"), (run.teacher_onnx, "ONNX Runtime")]
    return [Baseline(item, f"the teacher in {runtime}", runtime) for item, runtime in both if item is not None]


def pareto(rows: Sequence[Row], cost: str = "latency_ms_p50", gain: str = "accuracy") -> list[Row]:
    """The rows that no other row beats: none is as cheap and as good, and better in one. Sorted by cost.

    Rows without either figure are left out."""
    known = [row for row in rows if row.get(cost) is not None and row.get(gain) is not None]
    front = [row for row in known if not any(_beats(other, row, cost, gain) for other in known)]
    return sorted(front, key=lambda row: (row[cost], -row[gain]))


def _beats(one: Row, other: Row, cost: str, gain: str) -> bool:
    as_good = one[cost] <= other[cost] and one[gain] >= other[gain]
    return bool(as_good and (one[cost] < other[cost] or one[gain] > other[gain]))


def _further(run: Run) -> list[str]:
    found = {name for variant in run.variants for name in variant.measurement}
    return [*FURTHER, *sorted(found - set(FURTHER) - set(MEASURED))]


def _row(variant: Variant, metrics: Sequence[str], further: Sequence[str]) -> Row:
    row: Row = dict(zip(FIRST, (variant.name, variant.format, variant.path), strict=True))
    row |= {name: variant.measurement.get(name) for name in MEASURED}
    for name in metrics:
        row |= _bounded(variant, name)
    row |= {name: variant.measurement.get(name) for name in further}
    return row | {"paired": variant.paired, "state": variant.state, "error": variant.error}


def _bounded(variant: Variant, name: str) -> Row:
    metric = variant.metrics.get(name)
    values = (metric.value, metric.low, metric.high) if metric else (None, None, None)
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def _value(variant: Variant, name: str) -> float | None:
    metric = variant.metrics.get(name)
    return metric.value if metric else None
