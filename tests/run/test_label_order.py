from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.core.data.prepare import JobData, Split
from assay.core.errors import InputError
from assay.run.label_order import in_order_of

NAMES = ("contradiction", "entailment", "neutral")
SPLIT = Split(["a", "b", "c", "d"], np.array([0, 1, 2, -1]), [1, 2, 3, 4])
DATA = JobData(SPLIT, SPLIT, SPLIT, NAMES, "text-classification", "fingerprint")


def named(data: JobData) -> list[str | None]:
    return [data.labels[label] if label >= 0 else None for label in data.test.labels]


def test_classes_take_the_order_of_the_model_and_rows_keep_their_class() -> None:
    found = in_order_of(("neutral", "contradiction", "entailment"), DATA)
    assert found.labels == ("neutral", "contradiction", "entailment")
    assert named(found) == named(DATA) == ["contradiction", "entailment", "neutral", None]
    assert found.test.labels.tolist() == [1, 2, 0, -1]
    assert found.fingerprint != DATA.fingerprint


def test_the_same_order_is_the_same_data() -> None:
    assert in_order_of(NAMES, DATA) is DATA


def test_columns_of_a_multi_label_task_move() -> None:
    split = replace(SPLIT, labels=np.array([[1, 0, 0], [0, 1, 1], [-1, -1, -1], [0, 0, 1]]))
    data = replace(DATA, train=split, validation=split, test=split, task="multi-label-classification")
    found = in_order_of(("neutral", "contradiction", "entailment"), data)
    assert found.test.labels.tolist() == [[0, 1, 0], [1, 0, 1], [-1, -1, -1], [1, 0, 0]]


@pytest.mark.parametrize("names", [("LABEL_0", "LABEL_1", "LABEL_2"), ("contradiction", "entailment"), ()])
def test_other_classes_are_refused_with_both_lists(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"contradiction, entailment, neutral;.*data\.labels.*finetune") as refused:
        in_order_of(names, DATA)
    assert (", ".join(names) or "not named") in str(refused.value)


def test_a_regression_needs_one_output() -> None:
    data = replace(DATA, labels=(), task="text-regression")
    assert in_order_of(("LABEL_0",), data) is data
    with pytest.raises(InputError, match="2 outputs"):
        in_order_of(("LABEL_0", "LABEL_1"), data)
