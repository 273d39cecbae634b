"""A sentence whose tree is known, for tests of what reads trees."""

from __future__ import annotations

from probe.treebank import Sentence

Heads = tuple[int, ...]


def sentence(heads: Heads, punctuation: frozenset[int] = frozenset(), line: int = 1) -> Sentence:
    n = len(heads)
    upos = tuple("PUNCT" if at in punctuation else "X" for at in range(n))
    return Sentence(line, tuple(f"w{at}" for at in range(n)), upos, ("_",) * n, heads, ("dep",) * n)


TREE = sentence((1, 3, 1, -1, 3, 4, 3), frozenset({6}))  # the plot of, was, very good .
