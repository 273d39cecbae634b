from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from assay.core.manifest import write_json
from assay.core.metric import Metric
from reports.build import render
from reports.collect import collect
from reports.forgotten import forgotten, is_clear
from reports.units import change


def metric(name: str, value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return asdict(Metric(name, value, "fraction", None, 300, low, high))


def add(folder: Path, variant: str, probe: str, *metrics: dict[str, Any], **other: Any) -> None:
    about = {"key": "k", "probe": probe, "settings": {}, "variant": variant, "examined": "graph", "details": {}}
    write_json(
        folder / "results" / variant / "probes" / f"{probe}.json",
        about | {"metrics": list(metrics), "skipped": None, "failed": None, "seconds": 1.0} | other,
    )


def test_changes_stand_beside_the_teachers_score_and_clear_ones_are_bold(folder: Path) -> None:
    add(folder, "teacher", "tokens", metric("upos_accuracy", 0.9, 0.88, 0.92), silver="parser 1.0")
    add(folder, "int8", "tokens", metric("upos_accuracy", 0.88), metric("upos_change", -0.02, -0.03, -0.01))
    add(folder, "half_depth", "tokens", metric("upos_accuracy", 0.89), metric("upos_change", -0.01, -0.03, 0.01))
    add(folder, "int8", "custom", metric("word_surprisal_change", 0.5, 0.4, 0.6))  # no share of right answers
    add(folder, "int8", "erasure", metric("length_amnesic_change", -0.5, -0.6, -0.4))  # not since the teacher
    run = collect(folder)
    table = forgotten(run)
    rows = {(row.probe, row.asked): row for row in table.rows}
    row = rows["tokens", "upos"]
    assert row.score is not None
    assert row.score.value == 0.9
    by_variant = dict(zip(table.variants, row.changes, strict=True))
    assert {name: is_clear(each) for name, each in by_variant.items() if each} == {"int8": True, "half_depth": False}
    assert not {("custom", "word_surprisal"), ("erasure", "length_amnesic")} & set(rows)
    assert table.parsers == ["parser 1.0"]
    page = render(run)
    assert '<strong>−0.020</strong> <span class="under">(−0.030 to −0.010)</span></td>' in page
    assert 'number">−0.010 <span class="under">(−0.030 to +0.010)</span></td>' in page
    assert page.count('href="#forgotten"') == page.count('id="forgotten"') == 1
    assert "On the torch weights before export" not in page
    assert "Silver: trees and tags are those of parser 1.0" in page


def test_what_was_examined_before_its_export_is_told(folder: Path) -> None:
    for variant in ("int8", "half_depth"):
        examined = "torch weights before export" if variant == "int8" else "graph"
        add(folder, variant, "custom", metric("a_accuracy", 0.9), metric("a_change", 0.0), examined=examined)
    run = collect(folder)
    assert [each for each in forgotten(run).before_export if "custom" in each] == ["int8 (custom)"]
    assert "On the torch weights before export: int8 (custom)." in render(run)


def test_a_graph_of_the_teacher_examined_as_its_weights_is_named_as_not_shown(folder: Path) -> None:
    before = "torch weights before export"
    add(folder, "int8", "custom", metric("a_accuracy", 0.9), examined=before)  # the teacher itself: no change
    add(folder, "half_depth", "custom", metric("a_accuracy", 0.9), metric("a_change", 0.0), examined=before)
    run = collect(folder)
    assert "int8" in forgotten(run).absent
    assert "half_depth" not in forgotten(run).absent
    assert "hidden_states: true" in render(run)


def test_a_run_that_compared_nothing_has_no_such_section(folder: Path) -> None:
    for path in folder.glob("results/*/probes/*.json"):
        path.unlink()
    run = collect(folder)
    assert forgotten(run).rows == ()
    assert "What compression forgot" not in render(run)


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (None, "–"),
        (Metric("a", None, "fraction", None, 9), "–"),
        (Metric("a", 0.0001, "fraction", None, 9), "0.000"),
        (Metric("a", 0.5, "fraction", None, 9, -0.0001, 1.0), "+0.500 (0.000 to +1.000)"),
    ],
)
def test_a_change_has_its_sign(item: Metric | None, told: str) -> None:
    assert change(item) == told


def test_a_task_that_needs_no_parser_is_not_silver(folder: Path) -> None:
    tasks = [{"task": "length", "silver": False}, {"task": "tense", "silver": True}]
    metrics = [metric(f"{name}_{what}", 0.5) for name in ("length", "tense") for what in ("accuracy", "change")]
    add(folder, "int8", "custom", *metrics, silver="parser 1.0", details={"tasks": tasks})
    silver = {row.asked: row.silver for row in forgotten(collect(folder)).rows if row.probe == "custom"}
    assert silver == {"length": None, "tense": "parser 1.0"}
