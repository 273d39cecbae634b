from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reports.collect import Run, collect
from reports.examples import Flips, flips, logits

Logits = list[list[float]]


def write(folder: Path, name: str, labels: list[object], values: Logits) -> None:
    columns = {f"logit_{at}": column for at, column in enumerate(zip(*values, strict=True))}
    frame = pd.DataFrame({"row": range(1, len(labels) + 1), "label": labels, **columns})
    frame.to_parquet(folder / "results" / name / "predictions.parquet")


@pytest.fixture
def flips_of(run_of: Callable[..., Run], tmp_path: Path) -> Callable[..., Flips | None]:
    """Flips of int8 against the teacher, given labels and the logits of both."""

    def compare(true: list[object], teacher: Logits, ours: Logits, **top: object) -> Flips | None:
        run_of(**top)
        write(tmp_path / "other", "teacher", true, teacher)
        write(tmp_path / "other", "int8", true, ours)
        read = collect(tmp_path / "other")
        variant = read.variant("int8")
        assert variant is not None
        return flips(read, variant, most=2)

    return compare


def test_the_strongest_flips_come_first_with_both_answers(flips_of: Callable[..., Flips]) -> None:
    teacher = [[2.0, 0.0], [3.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    ours = [[2.0, 0.0], [0.0, 3.0], [1.0, 0.0], [0.0, 0.1]]
    found = flips_of([0, 0, 0, 0], teacher, ours)
    assert (found.total, found.of) == (3, 4)
    assert [flip.row for flip in found.rows] == [2, 3]
    assert found.rows[0].teacher == "negative 0.95"
    assert found.rows[0].variant == "positive 0.95"
    assert [flip.verdict for flip in found.rows] == ["now wrong", "now right"]


def test_a_flip_between_wrong_answers_and_a_hidden_label_have_their_verdicts(flips_of: Callable[..., Flips]) -> None:
    found = flips_of([0, -1], [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 3]], labels=("a", "b", "c"))
    verdicts = {flip.row: (flip.truth, flip.verdict) for flip in found.rows}
    assert verdicts == {1: ("a", "both wrong"), 2: ("hidden", "label hidden")}


def test_multi_label_answers_are_sets(flips_of: Callable[..., Flips]) -> None:
    top = {"task": "multi-label-classification", "labels": ("calm", "loud")}
    found = flips_of([[1, 0], [0, 0]], [[2.0, -2.0], [-1.0, -1.0]], [[2.0, 2.0], [-1.0, -1.0]], **top)
    assert found.total == 1
    assert (found.rows[0].truth, found.rows[0].variant) == ("calm", "calm 0.88, loud 0.88")


def test_regression_shows_the_largest_moves(flips_of: Callable[..., Flips]) -> None:
    found = flips_of([1.5, 2.0], [[1.0], [2.0]], [[1.1], [3.0]], task="text-regression")
    assert found.total is None
    assert [(flip.row, flip.teacher, flip.variant) for flip in found.rows] == [(2, "2.00", "3.00"), (1, "1.00", "1.10")]


def test_equal_answers_have_no_flips(flips_of: Callable[..., Flips]) -> None:
    found = flips_of([0], [[1.0, 0.0]], [[5.0, 0.0]])
    assert (found.total, found.rows) == (0, ())


def test_logits_are_ordered_by_number() -> None:
    frame = pd.DataFrame({"logit_10": [3.0], "logit_2": [2.0], "logit_1": [1.0], "logit_2_variant": [9.0]})
    np.testing.assert_array_equal(logits(frame), [[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(logits(frame, "_variant"), [[9.0]])


def test_without_predictions_there_are_no_examples(run: Run) -> None:
    broken = run.variant("broken")
    assert broken is not None
    assert flips(run, broken) is None
