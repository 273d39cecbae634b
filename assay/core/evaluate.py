"""Metrics of one model on the test rows, and of one model beside its teacher.

Rows with a hidden label count where no label is needed (loyalty, flips) and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from assay.core.data.prepare import Split
from assay.core.errors import AssayError
from assay.core.metric import Metric
from assay.core.stats import (
    bootstrap_interval,
    correlation_interval,
    expected_calibration_error,
    mcnemar_p,
    paired_flips,
    predicted_labels,
    probability_agreement,
    same_labels,
    to_probabilities,
    wilson_interval,
)


def evaluate(logits: np.ndarray, split: Split, task: str, labels: tuple[str, ...]) -> list[Metric]:
    """Metrics that fit the task, from logits [n, labels] in the order of the split; none where all labels are hidden.

    Classification: accuracy, macro_f1, ece. Multi-label: micro_f1, macro_f1, exact_match. Regression: mse, pearson,
    spearman. A class that has neither true nor predicted rows is left out of macro F1's mean, so that a class absent
    from the test rows costs nothing unless it is predicted. Raises AssayError for a wrong shape or logits that are not
    finite."""
    logits = _checked(logits, len(split), len(labels) or 1)
    seen = _visible(split, task)
    if not seen.any():
        return []
    logits, truth = logits[seen], split.labels[seen]
    if task == "text-regression":
        return _regression(logits[:, 0], truth)
    return _multi_label(logits, truth) if task == "multi-label-classification" else _single_label(logits, truth)


def compare(logits: np.ndarray, teacher_logits: np.ndarray, split: Split, task: str) -> list[Metric]:
    """How far a model follows its teacher on the same rows, both logits [n, labels].

    label_loyalty, probability_loyalty and flips need no labels; flips_to_wrong, flips_to_right and mcnemar_p are of the
    rows with a known label and left out without any. A flip from one wrong label to another is in `flips` alone.
    Regression: mean_abs_change."""
    width = np.shape(teacher_logits)[-1]
    logits, teacher_logits = (_checked(array, len(split), width) for array in (logits, teacher_logits))
    if task == "text-regression":
        return [_mean("mean_abs_change", np.abs(logits - teacher_logits)[:, 0], "label units", False)]
    same = same_labels(logits, teacher_logits, task)
    metrics = [
        _share("label_loyalty", same),
        _mean("probability_loyalty", probability_agreement(logits, teacher_logits, task), "fraction", True),
        _count("flips", int((~same).sum()), len(same), False),
    ]
    seen = _visible(split, task)
    if not seen.any():
        return metrics
    before, after = (_right(array[seen], split.labels[seen], task) for array in (teacher_logits, logits))
    to_wrong, to_right = paired_flips(before, after)
    return [
        *metrics,
        _count("flips_to_wrong", to_wrong, len(before), False),
        _count("flips_to_right", to_right, len(before), True),
        Metric("mcnemar_p", mcnemar_p(to_wrong, to_right), "probability", None, len(before)),
    ]


def _checked(logits: np.ndarray, rows: int, width: int) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    if logits.shape != (rows, width):
        raise AssayError(f"logits have shape {list(logits.shape)}, the test rows need [{rows}, {width}]")
    broken = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(broken):
        raise AssayError(f"logits of {len(broken)} of {rows} test rows are NaN or infinite, first at row {broken[0]}")
    return logits


def _visible(split: Split, task: str) -> np.ndarray:
    """bool [n]: rows whose label is known."""
    if task == "text-regression":
        return np.ones(len(split), bool)
    return _all_in_row(split.labels >= 0)


def _right(logits: np.ndarray, truth: np.ndarray, task: str) -> np.ndarray:
    return _all_in_row(predicted_labels(logits, task) == truth)


def _all_in_row(hits: np.ndarray) -> np.ndarray:
    return np.asarray(hits.reshape(len(hits), -1).all(axis=1))


def _single_label(logits: np.ndarray, truth: np.ndarray) -> list[Metric]:
    task, classes = "text-classification", logits.shape[1]
    predicted = predicted_labels(logits, task)
    confidence = to_probabilities(logits, task).max(axis=1)
    calibration = expected_calibration_error(confidence, predicted == truth)

    def score(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return _macro_f1(*_counts(truth, predicted, classes))

    return [
        _share("accuracy", predicted == truth),
        _bootstrapped("macro_f1", score, truth, predicted),
        Metric("ece", calibration, "fraction", False, len(truth)),
    ]


def _multi_label(logits: np.ndarray, truth: np.ndarray) -> list[Metric]:
    task = "multi-label-classification"
    predicted = predicted_labels(logits, task)

    def macro(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return _macro_f1(*(values.sum(axis=-2) for values in (truth & predicted, truth, predicted)))

    def micro(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return _macro_f1(*(values.sum(axis=(-2, -1))[..., None] for values in (truth & predicted, truth, predicted)))

    return [
        _bootstrapped("micro_f1", micro, truth, predicted),
        _bootstrapped("macro_f1", macro, truth, predicted),
        _share("exact_match", (predicted == truth).all(axis=1)),
    ]


def _counts(truth: np.ndarray, predicted: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(hits, true rows, predicted rows) of each class: [..., classes] from labels [..., rows]."""
    *samples, _ = truth.shape
    size = int(np.prod(samples, dtype=int))
    first = classes * np.arange(size).reshape(*samples, 1)  # so that each sample counts classes of its own

    def count(labels: np.ndarray) -> np.ndarray:
        return np.bincount(labels.ravel(), minlength=size * classes).reshape(*samples, classes)

    return count((truth + first)[truth == predicted]), count(truth + first), count(predicted + first)


def _macro_f1(hits: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """[...] from counts [..., classes]: mean F1 = 2 hits / (true + predicted) of the classes where that is defined; NaN
    where it is for none."""
    rows = true + predicted
    present = rows > 0
    scores = np.divide(2 * hits, rows, out=np.zeros(rows.shape), where=present)
    defined = present.sum(axis=-1)
    return np.divide(scores.sum(axis=-1), defined, out=np.full(defined.shape, np.nan), where=defined > 0)


def _regression(values: np.ndarray, truth: np.ndarray) -> list[Metric]:
    """`values` and `truth` are both [n]: a [n, 1] output is unpacked before, since it would broadcast to [n, n]."""
    from scipy.stats import rankdata

    return [
        _mean("mse", (values - truth) ** 2, "label units squared", False),
        _correlation("pearson", values, truth, ranks=False),
        _correlation("spearman", rankdata(values), rankdata(truth), ranks=True),
    ]


def _correlation(name: str, values: np.ndarray, truth: np.ndarray, ranks: bool) -> Metric:
    """None where one side is constant, as it is for a single row."""
    n = len(truth)
    if not np.ptp(values) or not np.ptp(truth):
        return Metric(name, None, "correlation", True, n)
    value = float(np.corrcoef(values, truth)[0, 1])
    return Metric(name, value, "correlation", True, n, *correlation_interval(value, n, ranks))


def _share(name: str, hits: np.ndarray) -> Metric:
    successes, n = int(hits.sum()), len(hits)
    return Metric(name, successes / n, "fraction", True, n, *wilson_interval(successes, n))


def _count(name: str, rows: int, n: int, higher_is_better: bool) -> Metric:
    low, high = wilson_interval(rows, n)
    return Metric(name, rows, "rows", higher_is_better, n, low * n, high * n)


def _mean(name: str, values: np.ndarray, unit: str, higher_is_better: bool) -> Metric:
    bounds = bootstrap_interval(partial(np.mean, axis=-1), values, vectorized=True)
    return Metric(name, float(values.mean()), unit, higher_is_better, len(values), *bounds)


def _bootstrapped(name: str, statistic: Callable[..., np.ndarray], truth: np.ndarray, predicted: np.ndarray) -> Metric:
    value = float(statistic(truth, predicted))
    bounds = bootstrap_interval(statistic, truth, predicted, vectorized=True)
    return Metric(name, None if np.isnan(value) else value, "fraction", True, len(truth), *bounds)
