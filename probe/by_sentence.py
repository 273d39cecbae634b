"""Intervals for figures over words. Words of a sentence are not drawn one by one, so sentences are what varies."""

from __future__ import annotations

import numpy as np

from assay.core.stats import Z, bootstrap_interval


def share_interval(right: np.ndarray, sentences: np.ndarray) -> tuple[float, float]:
    """95 % bounds of the share of right words: Wilson's interval for the number of words drawn one by one that would
    tell as much (Korn and Graubard 1998).

    right, sentences: [words], bool and the sentence of each. (0, 1) without words. The variance between sentences is
    that of a ratio estimate; where it is smaller than among words drawn one by one, theirs counts."""
    n = len(right)
    if n == 0:
        return 0.0, 1.0
    share, clusters = float(right.mean()), np.unique(sentences, return_inverse=True)[1]
    residuals = np.bincount(clusters, right - share)
    count, plain = len(residuals), share * (1 - share) / n
    observed = count / max(count - 1, 1) * float((residuals**2).sum()) / n**2
    worth = n / max(1.0, observed / plain) if plain > 0 else n
    middle, shrink = share + Z**2 / (2 * worth), 1 + Z**2 / worth
    half = Z * np.sqrt(share * (1 - share) / worth + Z**2 / (4 * worth**2))
    return max(0.0, float((middle - half) / shrink)), min(1.0, float((middle + half) / shrink))


def change_interval(change: np.ndarray, sentences: np.ndarray) -> tuple[float | None, float | None]:
    """95 % bootstrap bounds over sentences of the mean of `change` [words]; (None, None) below two sentences."""
    clusters = np.unique(sentences, return_inverse=True)[1]
    sums, counts = np.bincount(clusters, change), np.bincount(clusters).astype(float)
    return bootstrap_interval(lambda total, words: total.sum(-1) / words.sum(-1), sums, counts, vectorized=True)
