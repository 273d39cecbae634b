"""Binary trees by splitting, and their brackets against those of a dependency tree.

A bracket is (first word, word after the last). Those of one word and of the whole sentence, which every tree has, do
not count. A treebank of dependencies has no phrases: its brackets are the words below one head together with it, where
they stand side by side. A binary tree over n words has n - 2 brackets, mostly more than that, so its F1 cannot reach 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from probe.treebank import Sentence

Brackets = frozenset[tuple[int, int]]


def split_at_largest(distances: Sequence[float]) -> Brackets:
    """Brackets of the tree that is split, again and again, where the distance of neighbours is largest; of equal ones
    at the first (Shen et al. 2018; Kim et al. 2020). n - 1 distances are of n words."""
    return binary_tree(len(distances) + 1, lambda first, end: first + _largest(distances[first : end - 1]) + 1)


def binary_tree(n: int, split: Callable[[int, int], int]) -> Brackets:
    """Brackets of a tree over n words; `split(first, end)` is the word at which the right part of a bracket begins."""
    found, left = set(), [(0, n)]
    while left:
        first, end = left.pop()
        if end - first > 1:
            found.add((first, end))
            middle = split(first, end)
            left += [(first, middle), (middle, end)]
    return frozenset(found - {(0, n)})


def with_right_bias(distances: np.ndarray, strength: float) -> np.ndarray:
    """Distances [..., words - 1] plus `strength` times their mean at the first, falling evenly to nothing at the last,
    so that trees branch to the right (Kim et al. 2020)."""
    falling = np.linspace(1, 0, distances.shape[-1]) if distances.shape[-1] > 1 else np.ones(1)
    return distances + strength * distances.mean(-1, keepdims=True) * falling


def gold_brackets(sentence: Sentence, kept: Sequence[int]) -> Brackets:
    """Places, among the words `kept`, of each word with all kept words below it, where these stand side by side."""
    place = {word: at for at, word in enumerate(kept)}
    below: dict[int, set[int]] = {}
    for word, at in place.items():
        up: int | None = word
        while up is not None and up >= 0:
            below.setdefault(up, set()).add(at)
            up = sentence.heads[up]
    spans = [(min(own), max(own) + 1) for own in below.values() if max(own) - min(own) == len(own) - 1]
    return frozenset((first, end) for first, end in spans if 1 < end - first < len(kept))


def f1(found: Brackets, gold: Brackets) -> float:
    """Unlabelled bracket F1 of one sentence; at least one side must have a bracket."""
    return 2 * len(found & gold) / (len(found) + len(gold))


def baseline_f1(gold: Brackets, n: int) -> dict[str, float]:
    """F1 of trees over n words that know nothing of the sentence, of splitting at random (the mean over all orders of
    the splits), and the `most` that a binary tree can reach."""
    trees = {
        "left_branching": binary_tree(n, lambda first, end: end - 1),
        "right_branching": binary_tree(n, lambda first, end: first + 1),
        "balanced": binary_tree(n, lambda first, end: (first + end + 1) // 2),
    }
    scores = {name: f1(tree, gold) for name, tree in trees.items()}
    by_chance = sum(random_chance(bracket, n) for bracket in gold)
    both = len(gold) + n - 2
    return scores | {"random": 2 * by_chance / both, "most": 2 * len(gold) / both}


def random_chance(bracket: tuple[int, int], n: int) -> float:
    """Share of the orders of splits in which those at the bracket's ends come before all within it."""
    first, end = bracket
    size = end - first
    return 2 / (size * (size + 1)) if first > 0 and end < n else 1 / size


def _largest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)
