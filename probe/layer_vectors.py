"""Vectors of texts and of tokens from every layer, for a few texts at a time.

A text's vector is the mean over its real tokens, separators included. Token vectors are those of a seeded draw of its
tokens, separators left out: their states have norms and directions of their own, and there are two in each text. The
draw depends on the seed and the text's row alone, so models that read the same tokens give vectors of the same ones,
however they pad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from assay.core.model.edits import layout_of
from probe.pooling import check_depth, pool_mean

if TYPE_CHECKING:
    from assay.core.model.predict import StateBatch, WhiteBox
    from probe.shared_states import SharedStates


@dataclass(frozen=True)
class LayerVectors:
    """texts:  one [texts, width] a layer, the embedding output first
    tokens: one [tokens, width] a layer, the tokens of the first text first
    owners: [tokens] the text that each token is of
    ids:    of each text, the original ids of all its tokens"""

    texts: list[torch.Tensor]
    tokens: list[torch.Tensor]
    owners: torch.Tensor
    ids: list[list[int]]

    def of_layers(self, positions: Sequence[int]) -> LayerVectors:
        """The same of some layers only, by position."""
        texts, tokens = ([layers[at] for at in positions] for layers in (self.texts, self.tokens))
        return LayerVectors(texts, tokens, self.owners, self.ids)

    def of_texts(self, chosen: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Token vectors and owners of the texts where `chosen` [texts] is true."""
        kept = chosen[self.owners]
        return [layer[kept] for layer in self.tokens], self.owners[kept]


def first_of_each(owners: torch.Tensor) -> torch.Tensor:
    """Positions of the first token of each text, given [tokens] owners in ascending order."""
    new = torch.ones(len(owners), dtype=torch.bool)
    new[1:] = owners[1:] != owners[:-1]
    return new.nonzero().flatten()


def layer_vectors(
    model: WhiteBox | SharedStates, texts: Sequence[str], rows: Sequence[int], per_text: int, seed: int
) -> LayerVectors:
    """Vectors of all layers. `rows` are the numbers of the texts in the split; at most `per_text` tokens are drawn."""
    parts = [_of_batch(model, batch, rows, per_text, seed) for batch in model.states(texts)]
    places = torch.tensor([row for batch_rows, _ in parts for row in batch_rows]).argsort()
    owners = torch.cat([part.owners for _, part in parts])
    by_owner = owners.argsort(stable=True)
    ids = [read for _, part in parts for read in part.ids]
    return LayerVectors(
        [torch.cat(states)[places] for states in zip(*(part.texts for _, part in parts), strict=True)],
        [torch.cat(states)[by_owner] for states in zip(*(part.tokens for _, part in parts), strict=True)],
        owners[by_owner],
        [ids[place] for place in places],
    )


def _of_batch(
    model: WhiteBox | SharedStates, batch: StateBatch, rows: Sequence[int], per_text: int, seed: int
) -> tuple[list[int], LayerVectors]:
    """The texts of the batch, and their vectors in that order."""
    check_depth(model, len(batch.hidden))
    at, place = _draw(batch, [rows[row] for row in batch.rows], per_text, seed)
    vectors = LayerVectors(
        [pool_mean(state, batch.mask).float() for state in batch.hidden],
        [state[at, place].float() for state in batch.hidden],
        torch.tensor(batch.rows)[at],
        _read_ids(model, batch),
    )
    return batch.rows, vectors


def _read_ids(model: WhiteBox | SharedStates, batch: StateBatch) -> list[list[int]]:
    """Of each text the ids of its real tokens, as they were before any vocabulary was cut."""
    original = original_ids(model)
    read = [ids[mask].tolist() for ids, mask in zip(batch.input_ids, batch.mask, strict=True)]
    return read if original is None else [[original[token] for token in tokens] for tokens in read]


def original_ids(model: WhiteBox | SharedStates) -> Sequence[int] | None:
    """The original id of each token of a model whose vocabulary was cut; None where ids are the original ones."""
    edits = model.artifact.edits
    if not any(edit["edit"] == "keep_vocab" for edit in edits):
        return None
    return layout_of(model.artifact.config, edits).tokens


def _draw(batch: StateBatch, rows: Sequence[int], per_text: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(position in the batch, position in the text) of the drawn tokens, text by text."""
    found: list[tuple[int, int]] = []
    for at, row in enumerate(rows):
        words = (batch.mask[at] & ~batch.special[at]).nonzero().flatten().numpy()
        chosen = np.random.default_rng((seed, row)).permutation(len(words))[:per_text]
        found += [(at, int(words[place])) for place in chosen]
    where = torch.tensor(found, dtype=torch.long).reshape(-1, 2)
    return where[:, 0], where[:, 1]
