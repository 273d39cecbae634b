"""The best dependency tree of any shape: the maximum spanning arborescence (Chu and Liu 1965, Edmonds 1967; for parsing
McDonald et al. 2005, https://aclanthology.org/H05-1066)."""

from __future__ import annotations

import numpy as np


def arborescence(scores: np.ndarray, root: int) -> np.ndarray:
    """Heads int64 [words], -1 for `root`, of the tree whose scores have the greatest sum.

    scores: [heads, dependents]; what stands in the root's column and on the diagonal does not count. Each word takes
    its best head; a circle of such heads becomes one word, and is opened where the best tree of those enters it."""
    held = np.array(scores, np.float64)
    np.fill_diagonal(held, -np.inf)
    heads = held.argmax(axis=0)
    heads[root] = -1
    circle = _circle(heads)
    if not len(circle):
        return heads
    outside = np.setdiff1d(np.arange(len(heads)), circle)
    entering = held[np.ix_(outside, circle)] - held[heads[circle], circle]  # what is gained by opening the circle there
    leaving = held[np.ix_(circle, outside)]
    smaller = np.full((len(outside) + 1,) * 2, -np.inf)
    smaller[:-1, :-1], smaller[:-1, -1], smaller[-1, :-1] = (
        held[np.ix_(outside, outside)],
        entering.max(axis=1),
        leaving.max(axis=0),
    )
    *found, entry = arborescence(smaller, int(np.flatnonzero(outside == root)[0]))
    for place, head in enumerate(found):
        if head >= 0:
            inside = head == len(outside)
            heads[outside[place]] = circle[leaving[:, place].argmax()] if inside else outside[head]
    heads[circle[entering[entry].argmax()]] = outside[entry]
    return heads


def _circle(heads: np.ndarray) -> np.ndarray:
    """The words of one circle of heads; none where all ways lead to the root."""
    for start in range(len(heads)):
        way, at = [start], int(heads[start])
        while at >= 0 and at not in way:
            way.append(at)
            at = int(heads[at])
        if at >= 0:
            return np.array(way[way.index(at) :])
    return np.array([], dtype=np.int64)
