"""The states of a few sentences at a time in all layers at once, for probes that are trained in steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from probe.pooling import check_depth
from probe.word_pieces import align, encoder_of
from probe.word_spans import Span

if TYPE_CHECKING:
    from probe.shared_states import SharedStates
    from probe.token_files import TokenFiles
    from probe.word_pieces import AlignedWords

SCALE_ROWS = 4096  # pieces of words from which a layer's scale is taken: separators can be far longer than words


@dataclass(frozen=True)
class LayerPieces:
    """Sentences in a model. scale: [layers], the root mean square of the states' entries in each layer: divided by it,
    layers whose states are long and short weigh alike."""

    words: AlignedWords
    files: TokenFiles
    scale: torch.Tensor

    @classmethod
    def read(cls, model: SharedStates, sentences: Sequence[Sequence[str]]) -> LayerPieces:
        """States of all sentences (at least one), read where no probe has before. NotGiven as from `WordStates`."""
        words = align(encoder_of(model), sentences)
        files = model.tokens(words.texts, words.lengths)
        check_depth(model, len(files.widths))
        starts = [files.held[text].start for text in words.texts]
        rows = [start + at for start, own in zip(starts, words.pieces, strict=True) for word in own for at in word][
            :SCALE_ROWS
        ]
        squares = [float(np.square(files.layer(at)[rows]).mean()) for at in range(len(files.widths))]
        return cls(words, files, torch.tensor(squares).sqrt().clamp(min=1e-12))

    def tokens(self, sentences: Sequence[int]) -> torch.Tensor:
        """float32 [tokens of these sentences, layers, width], divided by the layers' scales."""
        rows = np.concatenate([_rows(self.files, self.words.texts[at]) for at in sentences])
        layers = [torch.from_numpy(self.files.layer(at)[rows]) for at in range(len(self.files.widths))]
        return torch.stack(layers, 1) / self.scale[:, None]

    def pieces(
        self, sentences: Sequence[int], spans: Sequence[Sequence[Span]] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(int64 [spans, most pieces] places in `tokens` of the same sentences, bool of the same shape, False where a
        span has fewer), sentence by sentence. `spans`: of each of these sentences, (start, end) in its words, all of
        them whole; where none are given, its whole words."""
        starts = np.cumsum([0, *(self.words.lengths[at] for at in sentences)])
        spans = [self._whole_words(at) for at in sentences] if spans is None else spans
        found = [
            [start + place for word in self.words.pieces[at][slice(*span)] for place in word]
            for start, at, own in zip(starts[:-1].tolist(), sentences, spans, strict=True)
            for span in own
        ]
        most = max(map(len, found), default=1)
        places = torch.tensor([span + [span[-1]] * (most - len(span)) for span in found], dtype=torch.long)
        counts = torch.tensor([len(span) for span in found], dtype=torch.long)
        return places.reshape(-1, most), torch.arange(most) < counts[:, None]

    def _whole_words(self, sentence: int) -> list[Span]:
        return [(at, at + 1) for at, word in enumerate(self.words.pieces[sentence]) if word]


def shuffled(sentences: int, size: int, epochs: int, seed: int) -> Iterator[list[int]]:
    """Batches of sentences, in a new order each epoch."""
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(sentences)
        yield from (order[start : start + size].tolist() for start in range(0, sentences, size))


def _rows(files: TokenFiles, text: str) -> np.ndarray:
    held = files.held[text].rows
    return np.arange(held.start, held.stop)
