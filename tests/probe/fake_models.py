"""Small predictors whose right answers are known, and the context in which probes meet them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from assay.core.artifact import Artifact
from assay.core.data.prepare import JobData, Split
from assay.core.model.image_settings import ImageSettings
from assay.core.model.images import PIXELS, ImageEncoder
from assay.core.model.predict import Predictor, StateBatch
from probe.probe import ProbeContext

ARTIFACT = Artifact(Path("store/fake-1234"), "1234", "torch", "text-classification", "bert")
COUNT = count()


class Classifier:
    """A predictor that gives what `answer` says for each text, and counts the texts it was asked about."""

    artifact = ARTIFACT
    batch_size = 32
    max_length = 128

    def __init__(self, answer: Callable[[str], list[float]]) -> None:
        self.answer, self.asked = answer, 0

    def logits(self, texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        self.asked += len(texts)
        return np.array([self.answer(text) for text in texts], dtype=np.float32)


class Reader:
    """A white box whose states and attentions are planted: `vector(text)` is the state of every token of a text in
    each layer, `attend(tokens)` one [heads, tokens, tokens] a layer. A text has a token a word and two separators.

    Batches are in the given order, padded by `padding` tokens more than needed; padding holds NaN, so that a
    statistic that touches it shows. Each is a model of its own, by its artifact's key. Token ids are those of `encoder`
    where that gives some, else 1."""

    artifact: Artifact
    encoder: Any = None
    batch_size = 32
    max_length = 128

    def __init__(
        self,
        vector: Callable[[str], list[list[float]]] = lambda text: [[0.0]],
        attend: Callable[[int], list[torch.Tensor]] | None = None,
        layers: tuple[int, ...] = (),
        heads: tuple[tuple[int, ...], ...] = (),
        padding: int = 0,
        left: bool = False,
    ) -> None:
        self.vector, self.attend, self.layers, self.heads = vector, attend, layers, heads
        self.padding, self.left = padding, left
        self.artifact = replace(ARTIFACT, key=f"reader {next(COUNT)}")

    def logits(self, texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        return np.zeros((len(texts), 2), dtype=np.float32)

    def states(self, texts: Sequence[str], batch_size: int = 32, attentions: bool = False) -> Iterator[StateBatch]:
        for start in range(0, len(texts), batch_size):
            yield self._batch(list(range(start, min(start + batch_size, len(texts)))), texts, attentions)

    def _batch(self, rows: list[int], texts: Sequence[str], attentions: bool) -> StateBatch:
        lengths = [len(texts[row].split()) + 2 for row in rows]
        width = max(lengths) + self.padding
        spots = [slice(width - n, width) if self.left else slice(0, n) for n in lengths]
        mask = torch.zeros(len(rows), width, dtype=torch.bool)
        special = torch.zeros(len(rows), width, dtype=torch.bool)
        for row, spot in enumerate(spots):
            mask[row, spot] = True
            special[row, [spot.start, spot.stop - 1]] = True
        hidden = self._hidden([texts[row] for row in rows], spots, width)
        weights = self._attentions(lengths, spots, width) if attentions and self.attend else []
        ids = mask.long()
        if hasattr(self.encoder, "ids"):
            ids[mask] = torch.tensor(list(chain(*self.encoder.ids([texts[row] for row in rows]))))
        return StateBatch(rows, ids, mask, special, hidden, weights, torch.zeros(len(rows), 2))

    def _hidden(self, texts: list[str], spots: list[slice], width: int) -> list[torch.Tensor]:
        vectors = torch.tensor([self.vector(text) for text in texts])  # [batch, layers, width]
        hidden = [torch.full((len(texts), width, vectors.shape[2]), torch.nan) for _ in range(vectors.shape[1])]
        for layer, state in enumerate(hidden):
            for row, spot in enumerate(spots):
                state[row, spot] = vectors[row, layer]
        return hidden

    def _attentions(self, lengths: list[int], spots: list[slice], width: int) -> list[torch.Tensor]:
        assert self.attend is not None
        planted = [self.attend(n) for n in lengths]
        weights = [torch.full((len(lengths), len(layer), width, width), torch.nan) for layer in planted[0]]
        for row, (spot, layers) in enumerate(zip(spots, planted, strict=True)):
            for layer, pattern in enumerate(layers):
                weights[layer][row, :, spot] = 0
                weights[layer][row, :, spot, spot] = pattern
        return weights


class WordEncoder:
    """A tokenizer for `WordReader`: a token a word and a separator at each end."""

    max_length = 128

    def offsets(self, texts: Sequence[str], cut: bool = True) -> list[list[tuple[int, int] | None]]:
        return [[None, *(found.span() for found in re.finditer(r"\S+", text)), None] for text in texts]


class Vocabulary(WordEncoder):
    """One that knows its words by their place among `words`, of which the first is the separator."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.tokenizer = SimpleNamespace(all_special_ids=[0], decode=lambda ids: self.words[ids[0]])

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[0, *map(self.words.index, text.split()), 0] for text in texts]


class PatchReader(Reader):
    """A reader of images, each `rows` x `columns` patches behind `own` tokens of the model; none is opened."""

    def __init__(self, rows: int, columns: int, own: int, attend: Callable[[int], list[torch.Tensor]]) -> None:
        heads = tuple(tuple(range(len(layer))) for layer in attend(own + rows * columns))
        super().__init__(attend=attend, layers=tuple(range(len(heads))), heads=heads)
        settings = ImageSettings(Path("."), (rows, columns), None, 0, 1.0, None, None)
        self.encoder = ImageEncoder(settings, own, patch=1)

    def _batch(self, rows: list[int], texts: Sequence[str], attentions: bool) -> StateBatch:
        assert self.attend is not None
        n = self.encoder.max_length
        read = self.encoder.tokens_of({PIXELS: torch.zeros(len(rows))}, n)
        weights = [layer.expand(len(rows), -1, -1, -1) for layer in self.attend(n)]
        return StateBatch(rows, *read, [torch.zeros(len(rows), n, 1)], weights, torch.zeros(len(rows), 2))


class WordReader(Reader):
    """A reader that tells where its tokens stand. `states_of(words)` are the states of a text's words, one
    [words, width] a layer."""

    def __init__(self, states_of: Callable[[list[str]], list[np.ndarray]], layers: tuple[int, ...]) -> None:
        super().__init__(layers=layers, heads=((0,),) * len(layers), padding=2)
        self.states_of, self.encoder = states_of, WordEncoder()

    def _hidden(self, texts: list[str], spots: list[slice], width: int) -> list[torch.Tensor]:
        planted = [self.states_of(text.split()) for text in texts]
        hidden = [torch.full((len(texts), width, layer.shape[1]), torch.nan) for layer in planted[0]]
        for row, (layers, spot) in enumerate(zip(planted, spots, strict=True)):
            for state, vectors in zip(hidden, layers, strict=True):
                state[row, spot] = 9.0  # the separators
                state[row, spot.start + 1 : spot.stop - 1] = torch.from_numpy(vectors).float()
        return hidden


def split(texts: list[str], labels: Sequence[float] | None = None) -> Split:
    return Split(texts, np.array([0] * len(texts) if labels is None else labels), list(range(1, len(texts) + 1)))


def context(
    test: Split,
    train: Split | None = None,
    teacher: Predictor | None = None,
    task: str = "text-classification",
    labels: tuple[str, ...] = ("neg", "pos"),
) -> ProbeContext:
    data = JobData(train or test, test, test, labels, task, "fingerprint")
    return ProbeContext(13, data, teacher or Classifier(lambda text: [1.0, 0.0]), log=lambda line: None)
