"""What a language model is asked about a text: at which places, and which token is the right answer there.

fill-mask: some tokens are hidden, and the model names them (Devlin et al. 2019, "BERT"). text-generation: it names each
token from those before it. The answer at a place is read where the token stands, or where the one before it stands.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.core.artifact import LanguageTask
from assay.core.errors import AssayError, NotGiven

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NOT_ASKED = -100  # the index that cross-entropy leaves out
SHARE = 0.15  # of the tokens are hidden
LEFT_MASKED, MADE_RANDOM = 0.8, 0.1  # of the hidden ones in training; the rest stays as it is


@dataclass(frozen=True)
class Question:
    """`ids` go into the model; `targets`, one an id, are the tokens that the outputs should name, or `NOT_ASKED`."""

    ids: list[int]
    targets: list[int]

    @property
    def places(self) -> list[int]:
        """Where an answer is asked for."""
        return [place for place, target in enumerate(self.targets) if target != NOT_ASKED]

    @property
    def answers(self) -> np.ndarray:
        """int64 [places]: the right tokens."""
        return np.array([target for target in self.targets if target != NOT_ASKED], dtype=np.int64)


class Asker:
    """Makes questions of token ids, the same for the same seed. NotGiven where tokens cannot be hidden, for want of a
    mask token."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, task: LanguageTask, seed: int = 0) -> None:
        if task == "fill-mask" and tokenizer.mask_token_id is None:
            raise NotGiven("the tokenizer has no mask token, so no token can be hidden")
        self.task, self.seed = task, seed
        self.mask, self.size = tokenizer.mask_token_id, len(tokenizer)
        self.special = frozenset(tokenizer.all_special_ids)

    def about(self, ids: Sequence[int]) -> Question:
        """Of each 15 % of a text's tokens that are hidden, at least one, or of each token after the first. Which ones,
        the seed and the text say. Nothing is asked of a text without any."""
        if self.task == "text-generation":
            return Question(list(ids), [*ids[1:], NOT_ASKED])
        random = np.random.default_rng((self.seed, zlib.crc32(np.asarray(ids, np.int64).tobytes())))
        return self._hidden(ids, random)

    def in_training(self, ids: Sequence[int], row: int, epoch: int) -> Question:
        """As `about`, but others are hidden in each epoch, a tenth of them behind a random token and a tenth not at
        all: a model that only ever answers at masks need not know the other tokens."""
        if self.task == "text-generation":
            return self.about(ids)
        random = np.random.default_rng((self.seed, epoch, row))
        hidden = self._hidden(ids, random)
        shown = list(hidden.ids)
        for place in hidden.places:
            drawn = random.random()
            if drawn >= LEFT_MASKED:
                random_token = int(random.integers(self.size))
                shown[place] = random_token if drawn < LEFT_MASKED + MADE_RANDOM else ids[place]
        return Question(shown, hidden.targets)

    def at(self, ids: Sequence[int], places: Sequence[int]) -> Question:
        """Of the tokens at `places`, all hidden at once (fill-mask) or each after those before it (text-generation),
        where the first token cannot be asked: AssayError."""
        if self.task == "text-generation" and 0 in places:
            raise AssayError("a causal model cannot be asked for the first token: nothing stands before it")
        shown, targets = list(ids), [NOT_ASKED] * len(ids)
        for place in places:
            if self.task == "fill-mask":
                shown[place], targets[place] = self.mask, ids[place]
            else:
                targets[place - 1] = ids[place]
        return Question(shown, targets)

    def last(self, ids: Sequence[int]) -> Question:
        """Of one token: the first hidden one of `about`, or the one that follows the text, whatever it is."""
        if self.task == "text-generation":
            return Question(list(ids), [*[NOT_ASKED] * (len(ids) - 1), 0])
        places = self.about(ids).places[:1] or [len(ids) - 1]
        return self.at(ids, places)

    def _hidden(self, ids: Sequence[int], random: np.random.Generator) -> Question:
        ordinary = [place for place, token in enumerate(ids) if token not in self.special]
        count = max(1, round(SHARE * len(ordinary))) if ordinary else 0
        return self.at(ids, random.choice(ordinary, count, replace=False).tolist() if count else [])
