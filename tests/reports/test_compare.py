from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_run import metric, models
from rich.console import Console

from assay.core.manifest import write_json
from reports.collect import Run, collect
from reports.compare import markdown, pareto, rows, summary, table, to_csv, to_json
from reports.rows import baselines, kept, quality_name

KEYS = [
    "variant", "format", "path", "size_bytes", "parameters", "nonzero_parameters", "latency_ms_p50", "latency_ms_p95",
    "throughput_per_s", "peak_rss_mib", "accuracy", "accuracy_low", "accuracy_high", "macro_f1", "macro_f1_low",
    "macro_f1_high", "label_loyalty",
]  # fmt: skip


def test_rows_have_the_documented_keys_in_order_for_every_variant(run: Run) -> None:
    items = rows(run)
    assert all(list(row) == list(items[0]) for row in items)
    assert list(items[0])[: len(KEYS)] == KEYS
    assert [name for name in items[0] if name in ("flips", "ece", "cold_start_s", "integer_ops", "state")] == [
        "flips", "ece", "cold_start_s", "integer_ops", "state",
    ]  # fmt: skip
    assert items[2]["accuracy_low"] < items[2]["accuracy"] < items[2]["accuracy_high"]


def test_what_is_missing_is_null_and_empty(run: Run) -> None:
    broken = json.loads(to_json(rows(run)))[-1]
    assert broken["variant"] == "broken"
    assert broken["accuracy"] is None
    assert broken["size_bytes"] is None
    assert broken["error"].startswith("prune_layers.keep")
    parsed = list(csv.DictReader(io.StringIO(to_csv(rows(run)))))
    assert parsed[-1]["accuracy"] == ""
    assert float(parsed[2]["latency_ms_p50"]) == 12.1


def test_classification_rows_have_their_columns_before_anything_is_evaluated(folder: Path) -> None:
    for path in folder.glob("results/*/evaluation.json"):
        path.unlink()
    row = rows(collect(folder))[0]
    assert row["probability_loyalty_high"] is None
    assert "ece" in row


def test_regression_has_its_own_metrics_and_no_accuracy(run_of: Callable[..., Run], tmp_path: Path) -> None:
    run_of(models()[:2], task="text-regression")
    path = tmp_path / "other" / "results" / "teacher" / "evaluation.json"
    metrics = [metric("mse", 0.4, unit="label units squared"), metric("spearman", 0.8, 0.7, 0.9, "correlation")]
    write_json(path, {"artifact_key": "key-teacher", "metrics": metrics})
    (tmp_path / "other" / "results" / "teacher_onnx" / "evaluation.json").unlink()
    read = collect(tmp_path / "other")
    row = rows(read)[0]
    assert (row["mse"], row["spearman"], "accuracy" in row) == (0.4, 0.8, False)
    assert quality_name(read) == "spearman"


def test_gains_are_against_each_baseline(run: Run) -> None:
    half = run.variant("half_depth")
    assert half is not None
    torch, onnx = baselines(run)
    assert torch.gain(half, "latency_ms_p50") == pytest.approx(27 / 3.8)
    assert onnx.gain(half, "latency_ms_p50") == pytest.approx(15 / 3.8)
    assert kept(run, half) == pytest.approx((120 - 26) / (120 - 18))


def test_pareto_keeps_what_nothing_beats() -> None:
    points = {"fast": (1, 0.7), "same_but_worse": (1, 0.6), "middle": (2, 0.8), "beaten": (3, 0.8), "best": (9, 0.9)}
    items = [{"variant": name, "latency_ms_p50": x, "accuracy": y} for name, (x, y) in points.items()]
    unknown = {"variant": "unknown", "latency_ms_p50": None, "accuracy": 1.0}
    assert [row["variant"] for row in pareto([*items, unknown])] == ["fast", "middle", "best"]


def test_equal_rows_are_both_on_the_front() -> None:
    twins = [{"variant": name, "size_bytes": 5, "accuracy": 0.5} for name in "ab"]
    assert pareto(twins, "size_bytes") == twins


def test_a_file_that_grew_is_flagged(run_of: Callable[..., Run]) -> None:
    chosen = models()
    chosen[2].size = 95e6
    grew = {line.name: line.grew for line in summary(run_of(chosen))}
    assert (grew["int8"], grew["half_depth"], grew["teacher_onnx"]) == (True, False, False)


def test_terminal_table_shows_human_units_and_no_markup_of_names(run_of: Callable[..., Run]) -> None:
    chosen = models()
    chosen[2].name = "[red]int8"
    console = Console(width=140, file=io.StringIO())
    console.print(table(run_of(chosen)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[red]int8" in text
    assert "22.9 MB" in text
    assert "2.2× · 1.2×" in text
    assert "0.842 (0.782 to 0.892)" in text
    assert "broken (failed)" in text


def test_markdown_is_a_table_with_one_line_a_variant(run: Run) -> None:
    lines = markdown(run).splitlines()
    assert lines[0].startswith("| variant | size | smaller |")
    assert lines[4].startswith("| int8 | 22.9 MB | 4.0× · 4.0× | 12.1 ms |")
    assert len({line.count("|") for line in lines[:8]}) == 1
