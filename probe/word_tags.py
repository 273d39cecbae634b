"""Tags of words: what can be said of them without any model.

The control task is that of Hewitt and Liang 2019 (https://arxiv.org/abs/1909.03368): each word type has one tag, drawn
by chance in the proportions of the real ones and the same in training and test. A probe that does well on it has the
capacity to learn words by heart; accuracy less that of the control is its selectivity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from probe.drawn_share import drawn_share


def control_tags(words: Sequence[str], like: np.ndarray, seed: int) -> np.ndarray:
    """[words] tags by a hash of the word alone, in the proportions of `like`."""
    classes, counts = np.unique(like, return_counts=True)
    edges = np.cumsum(counts[:-1]) / counts.sum()
    return classes[np.searchsorted(edges, [drawn_share(word, seed) for word in words], side="right")]


def most_frequent(tags: Sequence[str]) -> str:
    """The commonest tag; of several the first by name."""
    return min(Counter(tags).items(), key=lambda found: (-found[1], found[0]))[0]


def share_by_word(
    words: Sequence[str], tags: Sequence[str], test_words: Sequence[str], test_tags: Sequence[str]
) -> float:
    """Share of the test words that have the commonest tag of the same word in training; words that are not in there
    get the commonest of all."""
    seen: dict[str, list[str]] = {}
    for word, tag in zip(words, tags, strict=True):
        seen.setdefault(word, []).append(tag)
    lexicon, overall = {word: most_frequent(found) for word, found in seen.items()}, most_frequent(tags)
    right = [lexicon.get(word, overall) == tag for word, tag in zip(test_words, test_tags, strict=True)]
    return sum(right) / len(right)


def micro_f1(predicted: np.ndarray, tags: np.ndarray, outside: str = "O") -> float | None:
    """F1 over words, where `outside` is not a finding; None where there is nothing to find and nothing found."""
    found, there = predicted != outside, tags != outside
    hits, total = int((found & (predicted == tags)).sum()), int(found.sum() + there.sum())
    return 2 * hits / total if total else None
