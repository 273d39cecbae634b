"""The probability of words in several masks, filled one by one: at each step the word at the place where the model is
surest of it is put in, and the others are asked again (Davison et al. 2019, section 3.2,
https://aclanthology.org/D19-1109). The log-probability of all is the sum of those at their steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probe.language.sentence_scores import log_probabilities

if TYPE_CHECKING:
    from assay.core.model.language import LanguageModel


@dataclass(frozen=True)
class Fill:
    """A text's token ids, the places to be filled with what stands there, and those that stay hidden all the while."""

    ids: Sequence[int]
    places: Sequence[int]
    hidden: Sequence[int] = ()


def fill_greedily(model: LanguageModel, fills: Sequence[Fill]) -> np.ndarray:
    """float64 [fills]: log-probability in nats of the tokens at the places of each; 0 for none. A masked language model
    reads a text as often as it has places, and all texts go on together."""
    total, left = np.zeros(len(fills)), [set(fill.places) for fill in fills]
    while still := [row for row, places in enumerate(left) if places]:
        surest = _surest(model, [fills[row] for row in still], [left[row] for row in still])
        for row, (place, value) in zip(still, surest, strict=True):
            left[row].remove(place)
            total[row] += value
    return total


def _surest(model: LanguageModel, fills: Sequence[Fill], left: Sequence[set[int]]) -> list[tuple[int, float]]:
    """Of each the place among those `left` whose token is the most probable, and its log-probability."""
    questions = [
        model.asker.at(fill.ids, sorted({*fill.hidden, *places})) for fill, places in zip(fills, left, strict=True)
    ]

    def take(row: int, logits: np.ndarray) -> tuple[int, float]:
        question = questions[row]
        known = log_probabilities(logits)[np.arange(len(logits)), question.answers]
        asked = [at for at, place in enumerate(question.places) if place in left[row]]
        most = max(asked, key=lambda at: known[at])
        return question.places[most], float(known[most])

    return model.ask(questions, take)
