"""Which tokens are the pieces of which word, for sentences that come split into words.

Words are joined by single spaces, so the model reads ordinary text, and where each word stands is known without a
search. The tokenizer tells where each token stands (its offsets), and every token but the added separators is a piece
of exactly one word: of the one that its last character is in, or of the next where that is a space. Byte-level BPE may
count the space before a word to its first piece; normalisation that drops or adds characters moves no offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import numpy as np

from assay.core.errors import NotGiven

if TYPE_CHECKING:
    import torch

    from assay.core.model.encoder import Encoder
    from probe.shared_states import SharedStates

Pieces = Literal["mean", "first"]


@dataclass(frozen=True)
class AlignedWords:
    """texts:   sentences as the model reads them;  lengths: tokens of each, separators included
    pieces:  sentence -> word -> positions of its pieces among the tokens; none for a word that is left out
    vanished, cut: words that are left out because the tokenizer drops them, or because they are not whole within the
    tokens that the model reads"""

    texts: list[str]
    lengths: list[int]
    pieces: list[list[list[int]]]
    vanished: int
    cut: int

    @cached_property
    def whole(self) -> np.ndarray:
        """bool [words of all sentences]: which are not left out."""
        return np.array([bool(word) for sentence in self.pieces for word in sentence], dtype=bool)


def align(encoder: Encoder, sentences: Sequence[Sequence[str]]) -> AlignedWords:
    """The pieces of each word of each sentence. NotGiven from a tokenizer that does not tell offsets."""
    texts = [" ".join(words) for words in sentences]
    ends = [list(accumulate(map(len, words), lambda end, size: end + 1 + size)) for words in sentences]
    read = encoder.offsets(texts)
    full = [at for at, offsets in enumerate(read) if len(offsets) >= encoder.max_length]
    uncut = dict(zip(full, encoder.offsets([texts[at] for at in full], cut=False), strict=True))
    pieces, vanished, cut = [], 0, 0
    for at, offsets in enumerate(read):
        found = pieces_of(offsets, ends[at])
        whole = pieces_of(uncut[at], ends[at]) if at in uncut else found
        vanished += sum(not word for word in whole)
        broken = [len(mine) < len(all_of_it) for mine, all_of_it in zip(found, whole, strict=True)]
        cut += sum(broken)
        pieces.append([[] if lost else word for word, lost in zip(found, broken, strict=True)])
    return AlignedWords(texts, [len(offsets) for offsets in read], pieces, vanished, cut)


def pieces_of(offsets: Sequence[tuple[int, int] | None], ends: Sequence[int]) -> list[list[int]]:
    """Positions of each word's tokens, given where the tokens stand and where the words end; see the module's head."""
    pieces: list[list[int]] = [[] for _ in ends]
    for position, span in enumerate(offsets):
        if span is None or not ends:
            continue
        start, end = span
        owner = bisect_left(ends, end) if end > start else bisect_right(ends, start)
        pieces[min(owner, len(ends) - 1)].append(position)
    return pieces


@dataclass(frozen=True)
class WordStates:
    """Vectors of the words of some sentences, from the states that a model's probes share."""

    model: SharedStates
    words: AlignedWords
    rows: np.ndarray  # [pieces] in the files of token states, word by word
    counts: np.ndarray  # [whole words] pieces of each

    @classmethod
    def read(cls, model: SharedStates, sentences: Sequence[Sequence[str]]) -> WordStates:
        """States of all sentences, read where no probe has before. NotGiven where there is no room for them, or from a
        model whose tokenizer does not tell offsets."""
        from probe.pooling import check_depth

        words = align(encoder_of(model), sentences)
        files = model.tokens(words.texts, words.lengths)
        if files.widths:
            check_depth(model, len(files.widths))
        starts = [files.held[text].start for text in words.texts]
        whole = [
            [start + at for at in word]
            for start, sentence in zip(starts, words.pieces, strict=True)
            for word in sentence
            if word
        ]
        rows = np.array([row for word in whole for row in word], dtype=np.int64)
        return cls(model, words, rows, np.array([len(word) for word in whole], dtype=np.int64))

    def layer(self, position: int, pieces: Pieces = "mean") -> torch.Tensor:
        """float32 [whole words, width]: the mean over each word's pieces, or its first piece, in one layer."""
        import torch

        layer, first = self.model.files.layer(position), self.counts.cumsum() - self.counts
        if pieces == "first":
            return torch.from_numpy(layer[self.rows[first]])
        sums = np.add.reduceat(layer[self.rows], first, axis=0) if len(first) else layer[:0]
        return torch.from_numpy(sums / self.counts[:, None].astype(np.float32))


def encoder_of(model: SharedStates) -> Encoder:
    """What turns the model's texts into tokens; NotGiven from a model that has none."""
    encoder = getattr(model.model, "encoder", None)
    if encoder is None:
        raise NotGiven(f"{model.artifact.path.name} does not show its tokenizer, which single words need")
    return encoder
