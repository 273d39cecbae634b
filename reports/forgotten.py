"""What each variant knows less well than its teacher, or better: all that was compared item by item, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.core.metric import Metric
from reports.collect import ProbeResult, Run
from reports.findings import BEFORE_EXPORT, probe_names, results

CHANGE = "_change"
CALLED = {"edges": "relation of spans", "structure": "edges of the tree", "upos": "part of speech"}
SCORES = ("accuracy", "uuas", "f1", "p_at_1")  # whose change it can be


@dataclass(frozen=True)
class Known:
    """What a probe asks: the `score` of the teacher and how much `changes` in each variant, None where that is not
    known. `silver`: the parser whose trees or tags stood for true ones."""

    probe: str
    asked: str
    score: Metric | None
    changes: tuple[Metric | None, ...]
    silver: str | None

    @property
    def called(self) -> str:
        """What is asked, in words."""
        return CALLED.get(self.asked, self.asked)


@dataclass(frozen=True)
class Forgotten:
    """Rows of the table, the variants that its columns are of, and what was examined as weights before their export,
    such as `int8 (linear, tokens)`. `absent`: finished variants whose probes examined the teacher's own weights, before
    an export."""

    variants: tuple[str, ...]
    rows: tuple[Known, ...]
    before_export: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def parsers(self) -> list[str]:
        """All that some row is silver by."""
        return list(dict.fromkeys(row.silver for row in self.rows if row.silver))


def forgotten(run: Run) -> Forgotten:
    """Every change of a share of right answers since the teacher, by probe and by what was asked."""
    found = {probe: results(run, probe) for probe in probe_names(run)}
    changed = [result.variant for every in found.values() for result in every if any(_asked(result))]
    columns = tuple(variant.name for variant in run.variants if variant.name in changed)
    rows = [_row(run, every, asked, columns) for every in found.values() for asked in _every_asked(every)]
    exported = {result.variant for every in found.values() for result in every if result.examined == BEFORE_EXPORT}
    absent = tuple(each.name for each in run.variants if each.name in exported and each.name not in columns)
    return Forgotten(columns, tuple(rows), tuple(_before_export(found, rows, columns)), absent)


def _before_export(
    found: Mapping[str, Sequence[ProbeResult]], rows: Sequence[Known], columns: Sequence[str]
) -> Iterator[str]:
    shown = [result for probe in dict.fromkeys(row.probe for row in rows) for result in found[probe]]
    for name in columns:
        probes = [each.probe for each in shown if each.variant == name and each.examined == BEFORE_EXPORT]
        if probes:
            yield f"{name} ({', '.join(probes)})"


def is_clear(change: Metric | None) -> bool:
    """Whether the interval leaves 0 out."""
    if change is None or change.low is None or change.high is None:
        return False
    return change.low > 0 or change.high < 0


def _row(run: Run, every: list[ProbeResult], asked: str, columns: tuple[str, ...]) -> Known:
    by_variant = {result.variant: result for result in every}
    teacher = by_variant.get(run.teacher.name) if run.teacher else None
    scores = [_metric(teacher, f"{asked}_{score}") for score in SCORES]
    changes = tuple(_metric(by_variant.get(name), f"{asked}{CHANGE}") for name in columns)
    silver = next((parser for result in every if (parser := silver_of(result, asked))), None)
    return Known(every[0].probe, asked, next(filter(None, scores), None), changes, silver)


def silver_of(result: ProbeResult, asked: str) -> str | None:
    """The parser whose word stood for the truth in one task of a probe, which may have others that need none."""
    tasks = {str(task.get("task")): task for task in result.details.get("tasks") or ()}
    return result.silver if tasks.get(asked, {}).get("silver", True) else None


def _every_asked(every: Iterable[ProbeResult]) -> list[str]:
    return list(dict.fromkeys(asked for result in every for asked in _asked(result)))


def _asked(result: ProbeResult) -> list[str]:
    """What the probe gives both a score and its change for."""
    names = [metric.name for metric in result.metrics]
    changed = [name.removesuffix(CHANGE) for name in names if name.endswith(CHANGE)]
    return [asked for asked in changed if any(f"{asked}_{score}" in names for score in SCORES)]


def _metric(result: ProbeResult | None, name: str) -> Metric | None:
    return next((metric for metric in result.metrics if metric.name == name), None) if result else None
