"""F1 of the brackets that each measure of syntactic distance gives, sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from assay.core.stats import bootstrap_interval
from probe.induction.brackets import baseline_f1, f1, gold_brackets, split_at_largest, with_right_bias
from probe.treebank import Sentence


class Curve(NamedTuple):
    """Where distances come from. `layer` of the measures of states is 0 for the embedding output, else 1 + the layer's
    number in the original model; of those of attention it is that number itself, and `head` that of the head, None for
    the mean distance of all heads."""

    measure: str
    layer: int
    head: int | None = None


class PhraseScores:
    """Scores of sentences that have a bracket; punctuation is left out of them. `bias`: see `with_right_bias`."""

    def __init__(self, sentences: Sequence[Sentence], bias: float) -> None:
        self.lines = [each.line for each in sentences]
        self.bias = bias
        self.gold = [gold_brackets(each, each.spoken) for each in sentences]
        self.lengths = [len(each.spoken) for each in sentences]
        self.scores: dict[Curve, np.ndarray] = {}

    def add(self, curve: Curve, at: int, distances: np.ndarray) -> None:
        """The distances [words - 1] of the kept words of the sentence `at`."""
        scores = self.scores.setdefault(curve, np.full(len(self.gold), np.nan))
        scores[at] = f1(split_at_largest(with_right_bias(distances, self.bias).tolist()), self.gold[at])

    @property
    def best(self) -> Curve:
        """The curve whose mean F1 is highest, of several the first."""
        return self._best_of(slice(None))

    @property
    def held_out(self) -> float | None:
        """Mean F1 of each half of the sentences, every second one, by the curve that is best on the other half; None of
        one sentence. The best of many curves on the same sentences is always a little too good."""
        if len(self.lines) < 2:
            return None
        halves = slice(0, None, 2), slice(1, None, 2)
        return float(
            np.concatenate([self.scores[self._best_of(one)][other] for one, other in (halves, halves[::-1])]).mean()
        )

    def told(self) -> dict[str, Any]:
        """Mean F1 of each curve, the best with a 95 % interval over sentences, and the baselines."""
        low, high = bootstrap_interval(lambda rows: rows.mean(-1), self.scores[self.best], vectorized=True)
        known = [baseline_f1(*each) for each in zip(self.gold, self.lengths, strict=True)]
        return {
            "best": self._told(self.best) | {"low": low, "high": high},
            "held_out_f1": self.held_out,
            "curves": [self._told(curve) for curve in self.scores],
            "baselines": {name: float(np.mean([each[name] for each in known])) for name in known[0]},
            "sentences": len(self.gold),
        }

    def by_sentence(self) -> dict[Curve, list[np.ndarray]]:
        """F1 of each sentence as [1]."""
        return {curve: list(scores[:, None]) for curve, scores in self.scores.items()}

    def _best_of(self, sentences: slice) -> Curve:
        return max(self.scores, key=lambda curve: float(self.scores[curve][sentences].mean()))

    def _told(self, curve: Curve) -> dict[str, Any]:
        return curve._asdict() | {"f1": float(self.scores[curve].mean())}
