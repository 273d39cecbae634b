"""Intervals, paired tests, and what two sets of logits have in common.

All intervals are 95 % ones. Arrays are numpy; logits are [n, labels].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

AT_ONCE = 1_000_000  # elements of an array drawn at a time for a statistic of many resamples: some megabytes
Z = 1.959963984540054  # the normal quantile of a two-sided 95 % interval


def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """Bounds of a proportion (Wilson 1927), inside [0, 1] also for 0 or all of n; (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    share, shrink = successes / n, 1 + Z**2 / n
    middle = (share + Z**2 / (2 * n)) / shrink
    half = Z / shrink * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def bootstrap_interval(
    statistic: Callable[..., Any],
    *arrays: np.ndarray,
    seed: int = 0,
    resamples: int = 1000,
    vectorized: bool = False,
) -> tuple[float | None, float | None]:
    """Percentile bounds of `statistic(*arrays)` when rows are drawn with replacement, the same rows of every array.

    A `vectorized` statistic takes many resamples at once, [resamples, n] from each [n], and gives [resamples]: the same
    bounds in a tenth of the time. Resamples in which the statistic is not defined (NaN) do not count; (None, None)
    below two rows or without any."""
    n = len(arrays[0])
    if n < 2:
        return None, None
    rng = np.random.default_rng(seed)
    at_once = max(1, AT_ONCE // max(array.size for array in arrays)) if vectorized else 1
    sizes = [min(at_once, resamples - done) for done in range(0, resamples, at_once)]
    draws = (rng.integers(n, size=(size, n) if vectorized else n) for size in sizes)
    values = np.hstack([statistic(*(array[rows] for array in arrays)) for rows in draws]).astype(np.float64)
    defined = values[np.isfinite(values)]
    if not len(defined):
        return None, None
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)


def correlation_interval(value: float, n: int, ranks: bool = False) -> tuple[float | None, float | None]:
    """Bounds of Pearson's r by Fisher's z, of Spearman's (`ranks`) with the variance of Bonett and Wright (2000).

    (None, None) below four rows."""
    if n < 4:
        return None, None
    half = Z * np.sqrt((1 + value**2 / 2 if ranks else 1) / (n - 3))
    middle = np.arctanh(np.clip(value, -1 + 1e-12, 1 - 1e-12))
    return float(np.tanh(middle - half)), float(np.tanh(middle + half))


def paired_flips(right_before: np.ndarray, right_after: np.ndarray) -> tuple[int, int]:
    """(right rows that became wrong, wrong rows that became right), from two bool [n] on the same rows."""
    before, after = np.asarray(right_before, bool), np.asarray(right_after, bool)
    return int((before & ~after).sum()), int((~before & after).sum())


def mcnemar_p(to_wrong: int, to_right: int) -> float:
    """Exact two-sided p value of McNemar's test: are flips to wrong and to right equally likely? 1 without flips."""
    from scipy.stats import binomtest

    flips = to_wrong + to_right
    return float(binomtest(to_wrong, flips).pvalue) if flips else 1.0


def to_probabilities(logits: np.ndarray, task: str) -> np.ndarray:
    """float64 [n, labels]: softmax for one label a row, a sigmoid a label for multi-label, unchanged for regression."""
    from scipy.special import expit, softmax

    logits = np.asarray(logits, np.float64)
    if task == "text-regression":
        return logits
    return expit(logits) if task == "multi-label-classification" else softmax(logits, axis=-1)


def predicted_labels(logits: np.ndarray, task: str) -> np.ndarray:
    """Class indices int64 [n]; for multi-label int64 [n, labels] of 0/1, 1 where the probability is above one half."""
    logits = np.asarray(logits)
    return (logits > 0).astype(np.int64) if task == "multi-label-classification" else logits.argmax(axis=-1)


def same_labels(logits: np.ndarray, other: np.ndarray, task: str = "text-classification") -> np.ndarray:
    """bool [n]: do both predict the same label, or for multi-label the same set of labels?"""
    same = predicted_labels(logits, task) == predicted_labels(other, task)
    return same.reshape(len(same), -1).all(axis=1)


def label_loyalty(logits: np.ndarray, teacher_logits: np.ndarray, task: str = "text-classification") -> float:
    """Share of rows on which a model predicts what its teacher predicts, right or wrong (Xu et al. 2021, sec. 3.1)."""
    return float(same_labels(logits, teacher_logits, task).mean())


def probability_agreement(
    logits: np.ndarray, teacher_logits: np.ndarray, task: str = "text-classification"
) -> np.ndarray:
    """[n] in [0, 1]: 1 - the Jensen-Shannon distance (base 2) of the two distributions of each row.

    The distance is the root of the divergence, as scipy's `jensenshannon` already returns it; that function gives NaN
    where rounding makes the divergence of near-equal rows negative, which is 0 here. For multi-label each label is a
    distribution over yes and no, and a row the mean over its labels."""
    from scipy.special import rel_entr

    p, q = _distributions(logits, task), _distributions(teacher_logits, task)  # [n, ..., outcomes]
    middle = (p + q) / 2
    divergence = (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1) / (2 * np.log(2))
    distance = np.sqrt(np.clip(divergence, 0, 1))
    return 1 - distance.reshape(len(distance), -1).mean(axis=1)


def _distributions(logits: np.ndarray, task: str) -> np.ndarray:
    probabilities = to_probabilities(logits, task)
    if task == "multi-label-classification":
        return np.stack([probabilities, 1 - probabilities], axis=-1)
    return probabilities


def probability_loyalty(logits: np.ndarray, teacher_logits: np.ndarray, task: str = "text-classification") -> float:
    """Mean over rows of 1 - Jensen-Shannon distance to the teacher (Xu et al. 2021, eq. 2); 1 for equal outputs."""
    return float(probability_agreement(logits, teacher_logits, task).mean())


def expected_calibration_error(confidence: np.ndarray, correct: np.ndarray, bins: int = 10) -> float:
    """Mean gap between confidence and accuracy over `bins` equal bins, weighted by rows (Guo et al. 2017, eq. 3).

    Bins are closed on the right, the first one on both sides, so 0.0 and 1.0 have a bin; an empty bin adds 0."""
    confidence, correct = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    inner_edges = np.linspace(0, 1, bins + 1)[1:-1]
    gaps = np.bincount(np.digitize(confidence, inner_edges, right=True), correct - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(confidence))
