from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.core.data.labels import encode, sort_names
from assay.core.data.read import Rows
from assay.core.data.settings import DataSettings
from assay.core.errors import InputError

CLASSES, REGRESSION, MULTI = "text-classification", "text-regression", "multi-label-classification"


def rows(*cells: Any, name: str = "rows.csv") -> Rows:
    """Rows with these label cells; a tuple is a row of several label columns."""
    tuples = [cell if isinstance(cell, tuple) else (cell,) for cell in cells]
    return Rows(name, [f"text {i}" for i in range(len(cells))], tuples, list(range(1, len(cells) + 1)))


def encoded(data: Rows, task: str = CLASSES, **settings: Any) -> tuple[tuple[str, ...], list[Any]]:
    names, (labels,) = encode([data], DataSettings(source="rows.csv", **settings), task, hidden_in=None)
    return names, labels.tolist()


def with_test(train: Rows, test: Rows, task: str = CLASSES, **settings: Any) -> list[Any]:
    _, arrays = encode([train, test], DataSettings(source="rows.csv", **settings), task, hidden_in=test)
    return arrays[1].tolist()


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["10", "2", "1"], ("1", "2", "10")),
        (["1.5", "-1", "0"], ("-1", "0", "1.5")),
        (["pos", "neg"], ("neg", "pos")),
        (["10", "2", "x"], ("10", "2", "x")),
    ],
)
def test_numbers_in_numeric_order_names_in_text_order(names: list[str], order: tuple[str, ...]) -> None:
    assert sort_names(names) == order


def test_a_number_and_its_text_are_one_class() -> None:
    assert encoded(rows(1, "1", 2, "10", 1.0)) == (("1", "2", "10"), [0, 0, 1, 2, 0])


def test_names_that_spell_missing_values_are_classes() -> None:
    assert encoded(rows("None", "null", "NA")) == (("NA", "None", "null"), [1, 2, 0])


def test_given_order_and_given_names() -> None:
    assert encoded(rows("neg", "pos"), labels=["pos", "neg"]) == (("pos", "neg"), [1, 0])
    assert encoded(rows(0, "1"), labels={"1": "positive", "0": "negative"}) == (("positive", "negative"), [1, 0])
    merged = {"1": "low", "2": "low", "3": "high"}
    assert encoded(rows("1", "2", "3"), labels=merged) == (("low", "high"), [0, 0, 1])


def test_positions_in_a_given_list_unless_it_holds_numbers() -> None:
    assert encoded(rows(0, 1, "neg"), labels=["neg", "pos"]) == (("neg", "pos"), [0, 1, 0])
    assert encoded(rows(0, 1), labels=[1, 0]) == (("1", "0"), [1, 0])


@pytest.mark.parametrize("given", [["neg", "pos"], {"0": "neg", "1": "pos"}])
def test_label_outside_the_given_ones_names_value_and_row(given: Any) -> None:
    with pytest.raises(InputError, match=r"rows\.csv: row 3: label '2' is none of the 2 classes .*allowed: '0', '1'"):
        encoded(rows(0, 1, 2), labels=given)


def test_many_classes_with_one_missing_in_test() -> None:
    train = rows(*range(403))
    assert with_test(train, rows("402", 1)) == [402, 1]


def test_hidden_labels_only_in_test() -> None:
    train = rows("neg", "pos")
    assert with_test(train, rows(-1, "-1")) == [-1, -1]
    with pytest.raises(InputError, match=r"rows\.csv: row 2: label -1 means hidden"):
        encoded(rows("neg", -1, "pos"))


def test_minus_one_is_a_class_where_the_settings_name_it() -> None:
    names = {"-1": "against", "0": "neutral", "1": "for"}
    assert encoded(rows(-1, 0, 1), labels=names)[1] == [0, 1, 2]
    assert with_test(rows(-1, 0, 1), rows(-1), labels=names) == [0]


def test_single_class() -> None:
    with pytest.raises(InputError, match="all 41 rows are of class 'A'"):
        encoded(rows(*["A"] * 41))


def test_regression_targets_are_finite_numbers() -> None:
    assert encoded(rows(1, "2.5", -1.0), REGRESSION) == ((), [1.0, 2.5, -1.0])
    for bad in ("high", "nan", "inf"):
        with pytest.raises(InputError, match=rf"row 2: column 'label' holds '{bad}', not a finite number"):
            encoded(rows(1, bad), REGRESSION)


def test_multi_label_is_one_column_a_class() -> None:
    data = rows((1, "0"), (True, 0.0), ("0", 1))
    assert encoded(data, MULTI, label=["a", "b"]) == (("a", "b"), [[1, 0], [1, 0], [0, 1]])
    assert encoded(data, MULTI, label=["a", "b"], labels={"a": "anger"})[0] == ("anger", "b")
    assert encoded(data, MULTI, label=["a", "b"], labels=["x", "y"])[0] == ("x", "y")


def test_multi_label_errors() -> None:
    with pytest.raises(InputError, match="row 1: column 'b' holds 2; allowed: 0 or 1"):
        encoded(rows((1, 2)), MULTI, label=["a", "b"])
    with pytest.raises(InputError, match="row 1: column 'a' holds -1"):
        encoded(rows((-1, -1)), MULTI, label=["a", "b"])
    with pytest.raises(InputError, match=r"'c' is no column of data\.label; allowed: a, b"):
        encoded(rows((1, 0)), MULTI, label=["a", "b"], labels={"c": "x"})
    with pytest.raises(InputError, match="3 names for the 2 columns"):
        encoded(rows((1, 0)), MULTI, label=["a", "b"], labels=["x", "y", "z"])


def test_multi_label_row_is_hidden_as_a_whole() -> None:
    train, label = rows((1, 0), (0, 1)), ["a", "b"]
    assert with_test(train, rows((-1, -1), (1, 1)), MULTI, label=label) == [[-1, -1], [1, 1]]
    with pytest.raises(InputError, match="row 1: column 'b' holds -1"):
        with_test(train, rows((1, -1)), MULTI, label=label)


def test_label_columns_must_fit_the_task() -> None:
    with pytest.raises(InputError, match="does not fit text-classification"):
        encoded(rows((1, 0)), CLASSES, label=["a", "b"])
    with pytest.raises(InputError, match="'label' does not fit multi-label"):
        encoded(rows(1), MULTI)


def test_labels_are_int64_and_float64() -> None:
    settings = DataSettings(source="rows.csv")
    for task, kind in ((CLASSES, np.int64), (REGRESSION, np.float64)):
        assert encode([rows(0, 1)], settings, task, None)[1][0].dtype == kind
