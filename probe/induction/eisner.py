"""The best projective dependency tree (Eisner 1996, "Three New Probabilistic Models for Dependency Parsing",
https://aclanthology.org/C96-1058), by dynamic programming over half-trees, in O(n^3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TO_LEFT, TO_RIGHT, ARC_TO_LEFT, ARC_TO_RIGHT = range(4)


class _Item(NamedTuple):
    """A half-tree over the words from `first` to `last`, headed at the end that it does not lean to; those of an arc
    have one word at each end, joined, and are not whole on the dependent's far side."""

    kind: int
    first: int
    last: int


def eisner(scores: np.ndarray, root: int) -> np.ndarray:
    """Heads int64 [words], -1 for `root`, of the tree without crossing arcs whose scores have the greatest sum.

    scores: [heads, dependents]; what stands in the root's column and on the diagonal does not count."""
    n = len(scores)
    cuts = _fill(np.asarray(scores, np.float64))
    heads, open_items = np.full(n, -1), [_Item(TO_LEFT, 0, root), _Item(TO_RIGHT, root, n - 1)]
    while open_items:
        item = open_items.pop()
        if item.first < item.last:
            if item.kind == ARC_TO_LEFT:
                heads[item.first] = item.last
            elif item.kind == ARC_TO_RIGHT:
                heads[item.last] = item.first
            open_items += _parts(item, int(cuts[item]))
    return heads


def _fill(scores: np.ndarray) -> np.ndarray:
    """[kinds, words, words]: where the best item of each kind and span is cut in two."""
    n = len(scores)
    left, right, arc_left, arc_right = best = np.zeros((4, n, n))
    cuts = np.zeros((4, n, n), dtype=np.int64)
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            joined = right[i, i:j] + left[i + 1 : j + 1, j]
            cuts[ARC_TO_LEFT:, i, j] = i + joined.argmax()
            arc_left[i, j], arc_right[i, j] = joined.max() + scores[j, i], joined.max() + scores[i, j]
            lower = left[i, i:j] + arc_left[i:j, j]
            upper = arc_right[i, i + 1 : j + 1] + right[i + 1 : j + 1, j]
            cuts[TO_LEFT, i, j], cuts[TO_RIGHT, i, j] = i + lower.argmax(), i + 1 + upper.argmax()
            best[TO_LEFT, i, j], best[TO_RIGHT, i, j] = lower.max(), upper.max()
    return cuts


def _parts(item: _Item, cut: int) -> tuple[_Item, _Item]:
    """The two items that an item is made of."""
    kind, first, last = item
    if kind == TO_LEFT:
        return _Item(TO_LEFT, first, cut), _Item(ARC_TO_LEFT, cut, last)
    if kind == TO_RIGHT:
        return _Item(ARC_TO_RIGHT, first, cut), _Item(TO_RIGHT, cut, last)
    return _Item(TO_RIGHT, first, cut), _Item(TO_LEFT, cut + 1, last)
