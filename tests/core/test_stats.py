from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import binomtest

from assay.core.stats import (
    bootstrap_interval,
    correlation_interval,
    expected_calibration_error,
    label_loyalty,
    mcnemar_p,
    paired_flips,
    predicted_labels,
    probability_agreement,
    probability_loyalty,
    to_probabilities,
    wilson_interval,
)

CLASSES, REGRESSION, MULTI = "text-classification", "text-regression", "multi-label-classification"


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (10, 10), (1, 1), (845, 1000)])
def test_wilson_is_that_of_scipy(successes: int, n: int) -> None:
    expected = binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson_interval(successes, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_without_rows_says_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_bootstrap_of_a_mean_is_near_the_normal_interval() -> None:
    values = np.random.default_rng(0).normal(size=400)
    half = 1.96 * values.std() / 20
    assert bootstrap_interval(np.mean, values) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


def test_bootstrap_draws_the_same_rows_of_every_array() -> None:
    values = np.random.default_rng(0).normal(size=50)
    assert bootstrap_interval(lambda a, b: float((a - b).sum()), values, values) == (0.0, 0.0)


def test_many_resamples_at_once_give_the_bounds_of_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.core.stats.AT_ONCE", 300)  # 7 of 43 rows at a time, and 6 in the end
    one, other = np.random.default_rng(0).normal(size=(2, 43))

    def ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a.sum(axis=-1) / b.sum(axis=-1)

    found = bootstrap_interval(ratio, one, other, vectorized=True)
    assert found == bootstrap_interval(ratio, one, other)
    assert found != bootstrap_interval(ratio, one, other, seed=1, vectorized=True)


def test_bootstrap_where_nothing_is_defined() -> None:
    assert bootstrap_interval(np.mean, np.array([1.0])) == (None, None)
    assert bootstrap_interval(lambda a: float("nan"), np.arange(5)) == (None, None)


def test_bootstrap_follows_its_seed() -> None:
    values = np.random.default_rng(0).normal(size=50)
    first, again, other = (bootstrap_interval(np.mean, values, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_correlation_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng, truth, n = np.random.default_rng(0), 0.6, 60
    hits = 0
    for _ in range(400):
        x, noise = rng.normal(size=(2, n))
        low, high = correlation_interval(np.corrcoef(x, truth * x + np.sqrt(1 - truth**2) * noise)[0, 1], n)
        assert low is not None
        assert high is not None
        hits += low < truth < high
    assert 0.92 <= hits / 400 <= 0.98
    assert correlation_interval(0.5, 3) == (None, None)


def test_flips_are_counted_by_direction() -> None:
    before, after = np.array([1, 1, 1, 0, 0]), np.array([1, 0, 0, 1, 0])
    assert paired_flips(before, after) == (2, 1)


def test_mcnemar_by_hand() -> None:
    assert mcnemar_p(0, 0) == 1.0
    assert mcnemar_p(5, 5) == 1.0
    assert mcnemar_p(6, 0) == pytest.approx(2 * 0.5**6)
    assert mcnemar_p(1, 7) == mcnemar_p(7, 1) == pytest.approx(2 * 9 * 0.5**8)


def test_labels_that_are_independent_get_a_sigmoid_each() -> None:
    logits = np.array([[3.0, 3.0, -3.0]], np.float32)
    np.testing.assert_allclose(to_probabilities(logits, MULTI)[0], [0.953, 0.953, 0.047], atol=5e-4)
    np.testing.assert_allclose(to_probabilities(logits, CLASSES)[0], [0.499, 0.499, 0.001], atol=5e-4)
    np.testing.assert_array_equal(to_probabilities(logits, REGRESSION), logits)


def test_large_logits_do_not_overflow() -> None:
    np.testing.assert_allclose(to_probabilities(np.array([[1e4, 0.0]]), CLASSES), [[1, 0]])
    np.testing.assert_allclose(to_probabilities(np.array([[1e4, -1e4]]), MULTI), [[1, 0]])


def test_predicted_labels_are_indices_or_a_set() -> None:
    logits = np.array([[3.0, 2.0], [-1.0, -0.5]])
    assert predicted_labels(logits, CLASSES).tolist() == [0, 1]
    assert predicted_labels(logits, MULTI).tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("confidence", "correct", "error"),
    [
        ([0.95, 1.0], [1, 0], 0.475),  # 0.525 with a bin of its own for 1.0
        ([0.0, 0.5, 1.0], [1, 1, 1], 0.5),
        ([0.75, 0.75, 0.75, 0.75], [1, 1, 1, 0], 0.0),
        ([0.7, 0.65], [0, 1], 0.175),  # 0.7 closes its bin, though 0.7 * 10 > 7 in floating point
    ],
)
def test_calibration_error_by_hand(confidence: list[float], correct: list[int], error: float) -> None:
    assert expected_calibration_error(np.array(confidence), np.array(correct), bins=10) == pytest.approx(error)


def test_label_loyalty_is_agreement_with_the_teacher_not_with_the_truth() -> None:
    teacher, student = np.array([[2.0, 0], [0, 2], [0, 2], [2, 0]]), np.array([[1.0, 0], [0, 9], [5, 2], [0, 1]])
    assert label_loyalty(student, teacher) == 0.5
    assert label_loyalty(np.array([[1.0, 1], [1, -1]]), np.array([[2.0, 3], [1, 1]]), MULTI) == 0.5


def test_probability_loyalty_is_one_minus_the_distance_of_scipy() -> None:
    student, teacher = np.random.default_rng(0).normal(size=(2, 50, 3))
    p, q = to_probabilities(student, CLASSES), to_probabilities(teacher, CLASSES)
    expected = 1 - jensenshannon(p, q, base=2, axis=1)
    np.testing.assert_allclose(probability_agreement(student, teacher), expected)
    assert probability_loyalty(student, teacher) == pytest.approx(expected.mean())


def test_probability_loyalty_at_its_ends() -> None:
    logits = np.random.default_rng(0).normal(size=(2000, 3))
    assert probability_loyalty(logits, logits) == 1.0
    nearly = probability_agreement(logits * (1 + 1e-15), logits)  # scipy gives NaN for some of these
    assert nearly.min() > 1 - 1e-6
    assert probability_loyalty(np.array([[100.0, -100]]), np.array([[-100.0, 100]])) == pytest.approx(0.0)


def test_probability_loyalty_of_multi_label_is_by_label() -> None:
    one_of_two = probability_loyalty(np.array([[100.0, 1.0]]), np.array([[-100.0, 1.0]]), MULTI)
    assert one_of_two == pytest.approx(0.5)
