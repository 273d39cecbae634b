"""Texts as words, and which of the tokens that a model reads are the pieces of which word.

A word is a run of characters that are no space, with whatever punctuation touches it, so that every token of the text
is a piece of exactly one word (`probe/word_pieces.py`) and two models can be compared word by word whatever their
tokenizers. Text written without spaces is one word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probe.word_pieces import pieces_of

if TYPE_CHECKING:
    from assay.core.model.encoder import Encoder

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Reading:
    """One text as a model reads it: `ids` are its tokens, separators included; `pieces` of each word are positions
    among them, none for a word that the tokenizer drops or that lies beyond the tokens the model reads."""

    words: list[str]
    ids: list[int]
    pieces: list[list[int]]

    @property
    def read(self) -> list[int]:
        """The words that the model reads, by their number."""
        return [word for word, pieces in enumerate(self.pieces) if pieces]

    @property
    def of_words(self) -> np.ndarray:
        """bool [tokens]: True on pieces of words, False on separators."""
        found = np.zeros(len(self.ids), dtype=bool)
        found[[at for pieces in self.pieces for at in pieces]] = True
        return found

    def sums(self, values: np.ndarray) -> np.ndarray:
        """float64 [words]: of each word the sum of `values` [tokens] over its pieces, 0 where it has none."""
        return np.array([values[pieces].sum() if pieces else 0.0 for pieces in self.pieces], dtype=np.float64)

    def covered(self, word: int, token: int | None) -> list[int]:
        """The ids with `token` in the place of each piece of a word; without its pieces for None."""
        if token is None:
            return self.without([word])
        pieces = set(self.pieces[word])
        return [token if at in pieces else known for at, known in enumerate(self.ids)]

    def without(self, words: Collection[int]) -> list[int]:
        """The ids without the pieces of these words."""
        gone = {at for word in words for at in self.pieces[word]}
        return [known for at, known in enumerate(self.ids) if at not in gone]

    def only(self, words: Collection[int]) -> list[int]:
        """The ids of separators and of these words alone."""
        return self.without(set(self.read).difference(words))


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return _WORD.findall(text)


def read_words(encoder: Encoder, texts: Sequence[str]) -> list[Reading]:
    """Each text as the model reads it. NotGiven from a tokenizer that does not tell where its tokens stand."""
    both = zip(texts, encoder.ids(texts), encoder.offsets(texts), strict=True)
    ends = [[found.end() for found in _WORD.finditer(text)] for text in texts]
    return [
        Reading(words_of(text), ids, pieces_of(offsets, end))
        for (text, ids, offsets), end in zip(both, ends, strict=True)
    ]
