"""How far two attributions of the same words agree: rank correlation, and overlap of the words at the top.

Figures are means over texts with 95 % percentile intervals from texts drawn with replacement, for both models at once.
Chance: two independent rankings of n words share k / n of their top k. A text whose words are all alike to one side has
no ranking and does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 1000


@dataclass(frozen=True)
class Agreement:
    """Of each text [texts]: Spearman's correlation, the share of the top words that both have, that share by chance;
    NaN where all words of a side are alike."""

    spearman: np.ndarray
    overlap: np.ndarray
    chance: np.ndarray

    def told(self, kept: np.ndarray | None = None) -> dict[str, Any]:
        """Means over the texts, or over those `kept` (bool [texts]), as plain data; `n` of them have a correlation."""
        parts = [each if kept is None else each[kept] for each in (self.spearman, self.overlap, self.chance)]
        (spearman, low, high), (overlap, overlap_low, overlap_high), (chance, _, _) = map(mean_of, parts)
        return {
            "n": int(np.isfinite(parts[0]).sum()),
            "spearman": spearman,
            "low": low,
            "high": high,
            "overlap": overlap,
            "overlap_low": overlap_low,
            "overlap_high": overlap_high,
            "chance": chance,
        }


def agreement(own: Sequence[np.ndarray], other: Sequence[np.ndarray], top: int) -> Agreement:
    """Of attributions [words] of the same words, a pair a text, each of more than `top` words."""
    figures = np.full((len(own), 3), np.nan)
    for place, (a, b) in enumerate(zip(own, other, strict=True)):
        if np.ptp(a) and np.ptp(b):
            shared = top_words(a, top) & top_words(b, top)
            figures[place] = spearman(a, b), len(shared) / top, top / len(a)
    return Agreement(*figures.T)


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation of two [words], ties at their mean rank; neither may be constant."""
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def top_words(values: np.ndarray, count: int) -> set[int]:
    """The words with the highest attributions; among equal ones the first."""
    return set(np.argsort(-values, kind="stable")[:count].tolist())


def mean_of(values: np.ndarray) -> tuple[float | None, float | None, float | None]:
    """Mean over texts and the bounds of its 95 % bootstrap interval; NaN does not count, Nones where none is left."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None, None, None
    if len(known) == 1:
        return float(known[0]), None, None
    drawn = np.random.default_rng(0).integers(len(known), size=(RESAMPLES, len(known)))
    low, high = np.quantile(known[drawn].mean(axis=1), [0.025, 0.975])
    return float(known.mean()), float(low), float(high)
