from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score

from assay.core.data.prepare import Split
from assay.core.errors import AssayError
from assay.core.evaluate import compare, evaluate
from assay.core.metric import Metric
from assay.core.stats import mcnemar_p, wilson_interval

CLASSES, REGRESSION, MULTI = "text-classification", "text-regression", "multi-label-classification"
NAMES = ("neg", "pos")


def rows(labels: Any) -> Split:
    labels = np.asarray(labels)
    return Split(["text"] * len(labels), labels, list(range(1, len(labels) + 1)))


def by_name(metrics: list[Metric]) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


def one_hot(predicted: Any, classes: int) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[np.asarray(predicted)] * 4


def test_accuracy_with_its_interval() -> None:
    found = by_name(evaluate(one_hot([0, 1, 1, 1], 2), rows([0, 1, 0, 1]), CLASSES, NAMES))
    low, high = wilson_interval(3, 4)
    assert found["accuracy"] == Metric("accuracy", 0.75, "fraction", True, 4, low, high)
    assert list(found) == ["accuracy", "macro_f1", "ece"]


def test_macro_f1_is_that_of_sklearn_inside_its_interval() -> None:
    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
    found = by_name(evaluate(one_hot(guess, 3), rows(truth), CLASSES, ("a", "b", "c")))["macro_f1"]
    assert found.value == pytest.approx(f1_score(truth, guess, average="macro"))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_class_absent_from_test_costs_nothing_unless_predicted() -> None:
    names = tuple(map(str, range(403)))
    truth = np.arange(402)  # class 402 has no row
    right = by_name(evaluate(one_hot(truth, 403), rows(truth), CLASSES, names))
    assert right["macro_f1"].value == 1.0
    guess = truth.copy()
    guess[0] = 402
    wrong = by_name(evaluate(one_hot(guess, 403), rows(truth), CLASSES, names))
    assert wrong["macro_f1"].value == pytest.approx(401 / 403)


def test_calibration_error_uses_probabilities() -> None:
    logits = np.log([[0.95, 0.05], [0.05, 0.95]])
    found = by_name(evaluate(logits, rows([0, 0]), CLASSES, NAMES))
    assert found["ece"].value == pytest.approx(0.45)
    assert found["ece"].higher_is_better is False


def test_hidden_rows_count_for_nothing() -> None:
    logits = one_hot([0, 1, 1], 2)
    assert evaluate(logits, rows([-1, -1, -1]), CLASSES, NAMES) == []
    some = by_name(evaluate(logits, rows([0, -1, 0]), CLASSES, NAMES))["accuracy"]
    assert (some.value, some.n) == (0.5, 2)
    assert evaluate(logits, rows([[-1, -1]] * 3), MULTI, NAMES) == []


def test_regression_column_does_not_broadcast() -> None:
    found = by_name(evaluate(np.array([[1.0], [2], [3]]), rows([1.0, 2, 3]), REGRESSION, ()))
    assert found["mse"].value == 0.0  # 1.3333 when [3, 1] - [3] becomes [3, 3]
    assert found["pearson"].value == pytest.approx(1.0)
    assert list(found) == ["mse", "pearson", "spearman"]


def test_regression_of_one_row_and_of_constant_outputs() -> None:
    one = by_name(evaluate(np.array([[1.5]]), rows([1.0]), REGRESSION, ()))
    assert one["mse"].value == 0.25
    assert one["pearson"].value is one["spearman"].value is None
    constant = by_name(evaluate(np.ones((4, 1)), rows([1.0, 2, 3, 4]), REGRESSION, ()))
    assert constant["pearson"].value is None


def test_correlations_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    truth = np.round(rng.normal(size=80), 1)  # with ties
    values = truth**3 + rng.normal(size=80)
    found = by_name(evaluate(values[:, None], rows(truth), REGRESSION, ()))
    assert found["pearson"].value == pytest.approx(pearsonr(values, truth).statistic)
    assert found["spearman"].value == pytest.approx(spearmanr(values, truth).statistic)


def test_target_of_minus_one_is_a_target_in_regression() -> None:
    assert by_name(evaluate(np.array([[-1.0], [2]]), rows([-1.0, 2]), REGRESSION, ()))["mse"].n == 2


def test_multi_label_metrics_are_those_of_sklearn() -> None:
    rng = np.random.default_rng(0)
    truth, logits = rng.integers(0, 2, (60, 3)), rng.normal(size=(60, 3))
    found = by_name(evaluate(logits, rows(truth), MULTI, ("a", "b", "c")))
    guess = (logits > 0).astype(int)
    assert found["micro_f1"].value == pytest.approx(f1_score(truth, guess, average="micro"))
    assert found["macro_f1"].value == pytest.approx(f1_score(truth, guess, average="macro"))
    assert found["exact_match"].value == pytest.approx((truth == guess).all(axis=1).mean())
    assert list(found) == ["micro_f1", "macro_f1", "exact_match"]


def test_multi_label_without_any_label_has_no_f1() -> None:
    found = by_name(evaluate(-np.ones((5, 2)), rows(np.zeros((5, 2), int)), MULTI, NAMES))
    assert (found["micro_f1"].value, found["micro_f1"].low) == (None, None)
    assert found["exact_match"].value == 1.0


def test_logits_that_cannot_be_used() -> None:
    with pytest.raises(AssayError, match=r"shape \[2, 3\], the test rows need \[2, 2\]"):
        evaluate(np.zeros((2, 3)), rows([0, 1]), CLASSES, NAMES)
    broken = np.zeros((3, 2))
    broken[1, 0] = np.nan
    with pytest.raises(AssayError, match="1 of 3 test rows are NaN or infinite, first at row 1"):
        evaluate(broken, rows([0, 1, 1]), CLASSES, NAMES)


def test_flips_by_direction() -> None:
    truth, teacher, student = [0, 0, 0, 1, 2, 2], [0, 0, 1, 1, 0, 0], [0, 1, 0, 0, 1, 2]
    found = by_name(compare(one_hot(student, 3), one_hot(teacher, 3), rows(truth), CLASSES))
    assert {name: found[name].value for name in ("flips", "flips_to_wrong", "flips_to_right")} == {
        "flips": 5,  # row 5 goes from one wrong label to another
        "flips_to_wrong": 2,
        "flips_to_right": 2,
    }
    assert found["label_loyalty"].value == pytest.approx(1 / 6)
    assert found["mcnemar_p"].value == mcnemar_p(2, 2)
    low, high = wilson_interval(5, 6)
    assert (found["flips"].low, found["flips"].high) == (low * 6, high * 6)


def test_teacher_beside_itself() -> None:
    logits = np.random.default_rng(0).normal(size=(30, 2))
    found = by_name(compare(logits, logits, rows([0, 1] * 15), CLASSES))
    assert (found["label_loyalty"].value, found["probability_loyalty"].value, found["flips"].value) == (1, 1, 0)
    assert found["mcnemar_p"].value == 1.0


def test_loyalty_needs_no_labels_and_direction_does() -> None:
    metrics = compare(one_hot([0, 1], 2), one_hot([0, 0], 2), rows([-1, -1]), CLASSES)
    assert [metric.name for metric in metrics] == ["label_loyalty", "probability_loyalty", "flips"]
    some = by_name(compare(one_hot([0, 1], 2), one_hot([0, 0], 2), rows([-1, 1]), CLASSES))
    assert (some["flips"].n, some["flips_to_right"].n, some["flips_to_right"].value) == (2, 1, 1)


def test_multi_label_flip_is_any_label() -> None:
    teacher, student = np.array([[1.0, 1], [1, -1]]), np.array([[1.0, 1], [1, 1]])
    found = by_name(compare(student, teacher, rows([[1, 1], [1, 1]]), MULTI))
    assert (found["flips"].value, found["flips_to_right"].value, found["label_loyalty"].value) == (1, 1, 0.5)


def test_regression_is_compared_by_its_change() -> None:
    (change,) = compare(np.array([[1.0], [3]]), np.array([[1.5], [2]]), rows([0.0, 0]), REGRESSION)
    assert (change.name, change.value) == ("mean_abs_change", 0.75)


def test_ten_thousand_rows_take_seconds_at_most() -> None:
    truth = np.arange(10_000) % 403
    started = time.process_time()
    evaluate(one_hot(truth, 403), rows(truth), CLASSES, tuple(map(str, range(403))))
    assert time.process_time() - started < 5
