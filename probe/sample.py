"""Which rows a probe looks at: seeded, and in the proportions of the classes rather than the first N."""

from __future__ import annotations

import numpy as np


def draw_rows(labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Positions of at most `count` rows, ascending. The same seed gives the same rows.

    Class indices [n] are drawn in proportion to their frequency; float labels and label sets are drawn evenly."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    if labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer):
        shuffled = _interleave(shuffled, labels)
    return np.sort(shuffled[:count])


def _interleave(shuffled: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The order in which every prefix holds the classes in nearly their overall proportions."""
    place = np.empty(len(shuffled))
    for label in np.unique(labels):
        members = labels[shuffled] == label
        place[members] = (np.arange(members.sum()) + 0.5) / members.sum()
    return shuffled[np.argsort(place, kind="stable")]
