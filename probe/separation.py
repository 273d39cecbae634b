"""How well a score parts true items from false ones."""

from __future__ import annotations

import numpy as np


def area(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Area under the ROC curve along the last axis: the share of pairs of a true and a false item in which the true one
    scores higher, ties half (Mann and Whitney 1947). NaN without true or without false ones.

    scores, labels: [..., items], the labels 0 or 1."""
    from scipy.stats import rankdata

    true = labels.sum(axis=-1)
    false = labels.shape[-1] - true
    ranks = (rankdata(scores, axis=-1) * labels).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (ranks - true * (true + 1) / 2) / (true * false)


def best_threshold(scores: np.ndarray, labels: np.ndarray) -> float:
    """The score from which on to call an item true, so that most of these are called what they are; of several equally
    good ones the lowest. Infinite where it is best to call all items true, or none.

    scores, labels: [items], the labels 0 or 1."""
    order = np.argsort(scores, kind="stable")
    ordered, truth = scores[order], labels[order].astype(np.int64)
    below = np.concatenate([[0], np.cumsum(1 - truth)])  # false ones among the lowest k
    above = truth.sum() - np.concatenate([[0], np.cumsum(truth)])  # true ones among the rest
    edges = np.concatenate([[-np.inf], (ordered[1:] + ordered[:-1]) / 2, [np.inf]])[: len(ordered) + 1]
    parted = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])[: len(ordered) + 1]
    return float(edges[np.where(parted, below + above, -1).argmax()])
