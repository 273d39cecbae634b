"""How well predicted distances and depths rebuild a tree, scored as by Hewitt and Manning 2019, section 4.

Punctuation counts for the correlations and not for the tree: it is left out of the tree that is built, of the gold one
and of the candidates for the root.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

SHORTEST, LONGEST = 5, 50  # words of the sentences whose rank correlations count

Edges = set[tuple[int, int]]


def spanning_tree(distances: np.ndarray, words: Sequence[int]) -> Edges:
    """Edges (lower, higher word) of the least spanning tree over `words`, distances [all words, all words] (Prim)."""
    outside = np.array(words[1:], dtype=np.int64)
    if not len(outside):
        return set()
    nearest, least = np.full(len(outside), words[0]), distances[words[0], outside].astype(float)
    edges: Edges = set()
    while len(outside):
        place = int(least.argmin())
        new, old = int(outside[place]), int(nearest[place])
        edges.add((min(new, old), max(new, old)))
        outside, nearest, least = (np.delete(part, place) for part in (outside, nearest, least))
        closer = distances[new, outside] < least
        nearest[closer], least[closer] = new, distances[new, outside][closer]
    return edges


def right_edges(told: np.ndarray, gold: np.ndarray, words: Sequence[int]) -> np.ndarray:
    """bool [edges of the gold tree over `words`]: which are in the tree of the `told` distances (UUAS is the mean)."""
    found = spanning_tree(told, words)
    return np.array([edge in found for edge in sorted(spanning_tree(gold, words))], dtype=bool)


def row_correlation(told: np.ndarray, gold: np.ndarray) -> float | None:
    """Mean over words of Spearman's correlation of a word's distances to all words; None where none is defined."""
    from scipy.stats import rankdata

    ranks = [rankdata(part, axis=-1) for part in (np.atleast_2d(told), np.atleast_2d(gold))]
    centred = [part - part.mean(-1, keepdims=True) for part in ranks]
    norms = [np.sqrt(np.square(part).sum(-1)) for part in centred]
    defined = (norms[0] > 0) & (norms[1] > 0)
    if not defined.any():
        return None
    products = (centred[0] * centred[1]).sum(-1)
    return float((products[defined] / (norms[0] * norms[1])[defined]).mean())


def mean_by_length(values: Sequence[float | None], lengths: Sequence[int]) -> float | None:
    """The mean over sentences of one length, averaged over the lengths of 5 to 50 words that there are."""
    groups = defaultdict[int, list[float]](list)
    for value, length in zip(values, lengths, strict=True):
        if value is not None and SHORTEST <= length <= LONGEST:
            groups[length].append(value)
    return float(np.mean([np.mean(group) for group in groups.values()])) if groups else None
