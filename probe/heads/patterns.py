"""Which of the five shapes of Kovaleva et al. 2019 a head's maps have: a classifier of maps, and its answers by head.

Kovaleva et al. train a convolutional network on 400 maps they labelled; here a random forest learns from drawn maps of
several lengths (`probe/heads/made_patterns.py`), and its accuracy on maps of other lengths is told with its answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from probe.heads.made_patterns import CLASSES, make_maps
from probe.heads.maps import HeadList, Maps
from probe.heads.pattern_features import features

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

FEWEST_TOKENS = 8  # a smaller map has no shape to speak of
LENGTHS, OTHER_LENGTHS = (8, 12, 16, 24, 32, 48, 64), (10, 14, 20, 40)
MAPS, TEST_MAPS = 200, 100  # of each length
TREES = 40


@dataclass(frozen=True)
class PatternClassifier:
    """`accuracy` on `tested` drawn maps of lengths that it has not seen."""

    forest: RandomForestClassifier
    causal: bool
    accuracy: float
    tested: int

    def classes(self, maps: Tensor) -> np.ndarray:
        """Positions in `CLASSES` for maps [maps, tokens, tokens]."""
        return self.forest.predict(features(maps, self.causal).numpy())

    def told(self) -> dict[str, Any]:
        """How far to trust it."""
        return {
            "causal": self.causal,
            "accuracy": self.accuracy,
            "n": self.tested,
            "lengths": list(OTHER_LENGTHS),
            "fewest_tokens": FEWEST_TOKENS,
        }


@lru_cache(maxsize=4)
def train_classifier(causal: bool, seed: int) -> PatternClassifier:
    """The same for the same seed. `causal`: for maps in which a token sees those before it only."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(seed)
    told, classes = _drawn(LENGTHS, MAPS, causal, rng)
    test, expected = _drawn(OTHER_LENGTHS, TEST_MAPS, causal, rng)
    forest = RandomForestClassifier(TREES, random_state=seed).fit(told, classes)
    right = forest.predict(test) == expected
    return PatternClassifier(forest, causal, float(right.mean()), len(right))


def _drawn(
    lengths: tuple[int, ...], count: int, causal: bool, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(features, classes) of so many maps of each length."""
    made = [make_maps(count, n, causal, rng) for n in lengths]
    told = [features(torch.from_numpy(maps), causal).numpy() for maps, _ in made]
    return np.concatenate(told), np.concatenate([classes for _, classes in made])


@dataclass
class PatternSums:
    """`found` [heads, classes]: maps of each class; the maps of texts below eight tokens are left out."""

    heads: HeadList
    seed: int
    found: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.found = np.zeros((len(self.heads.numbers), len(CLASSES)), dtype=np.int64)

    @property
    def classifiers(self) -> list[PatternClassifier]:
        """Those that this model's heads need."""
        return [train_classifier(causal, self.seed) for causal in sorted(set(self.heads.causal.tolist()))]

    def add(self, maps: Maps) -> None:
        """Count the maps of some rows."""
        rows, _, n, _ = maps.weights.shape
        if n < FEWEST_TOKENS:
            return
        for classifier in self.classifiers:
            mine = (self.heads.causal == classifier.causal).nonzero()[:, 0]
            answers = classifier.classes(maps.weights[:, mine].flatten(0, 1)).reshape(rows, len(mine))
            for row in answers:
                self.found[mine.numpy(), row] += 1

    def shares(self) -> np.ndarray:
        """[heads, classes], 0 where no text was long enough."""
        return self.found / self.found.sum(1, keepdims=True).clip(1)
