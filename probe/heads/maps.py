"""Attention of all heads as maps without padding: the rows of a batch that have one length, all layers together.

A decoder above an encoder reads the text one place to the right, behind a start token, so its queries and keys are
other tokens than the encoder's at that place (`shifted`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assay.core.errors import AssayError
from assay.core.model.anatomy import family_of

if TYPE_CHECKING:
    from assay.core.model.predict import StateBatch, WhiteBox

MOST_WEIGHTS = 2**24  # in one group of maps, 64 MiB
SUM_TOLERANCE = 1e-3  # of a row of attention weights; half precision rounds 512 of them to about that
TIE = 1e-6  # weights this close are one; float32 rounds a softmax to about 1e-7


@dataclass(frozen=True)
class HeadList:
    """All heads of a model in one order, that of its layers from bottom to top.

    numbers: (layer, head) in the original model;  counts: heads of each present layer
    causal, shifted: bool [heads], of decoders, and of decoders above an encoder"""

    numbers: list[tuple[int, int]]
    counts: list[int]
    causal: Tensor
    shifted: Tensor

    @classmethod
    def of(cls, model: WhiteBox) -> HeadList:
        """Those of a model, by its layers, heads and family."""
        numbers = [(layer, head) for layer, heads in zip(model.layers, model.heads, strict=True) for head in heads]
        counts, family = [len(heads) for heads in model.heads], family_of(model.artifact.family)
        upper = _upper_stacks(model) if len(family.stacks) > 1 else [False] * len(counts)
        shifted = torch.tensor(upper, dtype=torch.bool).repeat_interleave(torch.tensor(counts, dtype=torch.long))
        return cls(numbers, counts, shifted | family.causal, shifted)


@dataclass(frozen=True)
class Maps:
    """Maps of rows of one length.

    rows:         positions in the list of texts that was read
    ids, special: [rows, heads, tokens], of the token at each place as each head sees it
    weights:      float32 [rows, heads, tokens, tokens], those of a query sum to 1"""

    rows: list[int]
    ids: Tensor
    special: Tensor
    weights: Tensor
    heads: HeadList

    @cached_property
    def peaks(self) -> Tensor:
        """Position of the key that each query looks at most, [rows, heads, tokens]; -1 where several share the most."""
        return single_peaks(self.weights)

    @cached_property
    def by_token(self) -> Tensor:
        """`weights` with a text's token i at place i for every head; the start token of shifted heads is the last."""
        shifted = self.heads.shifted
        if not shifted.any():
            return self.weights
        aligned = self.weights.clone()
        aligned[:, shifted] = self.weights[:, shifted].roll((-1, -1), (2, 3))
        return aligned


def single_peaks(weights: Tensor) -> Tensor:
    """Place of the greatest of the last dimension; -1 where it is not the only one."""
    most, places = weights.max(-1)
    single = (weights >= most[..., None] - TIE).sum(-1) == 1
    return torch.where(single, places, -1)


def maps_of(batch: StateBatch, heads: HeadList) -> Iterator[Maps]:
    """The batch's rows of two tokens and more, length by length. AssayError where attention is missing or leaks into
    padding."""
    check_heads(batch, heads.counts)
    lengths = batch.mask.sum(1)
    for n in lengths.unique().tolist():
        most = max(1, MOST_WEIGHTS // max(1, len(heads.numbers) * n * n))
        for rows in (lengths == n).nonzero()[:, 0].split(most):
            if n > 1 and heads.numbers:
                yield _maps(batch, heads, rows, n)


def check_heads(batch: StateBatch, heads: Sequence[int]) -> None:
    """AssayError unless a batch has attention of so many heads in each layer."""
    found = [0 if weights is None else weights.shape[1] for weights in batch.attentions]
    if found != list(heads):
        raise AssayError(f"attention of {found} heads a layer, not {list(heads)}: load with eager attention")


def check_sums(real: Tensor) -> None:
    """AssayError unless weights [..., tokens] over real tokens sum to 1."""
    worst = (real.sum(-1) - 1).abs().max().item() if real.numel() else 0.0
    if not worst <= SUM_TOLERANCE:
        raise AssayError(f"attention over real tokens does not sum to 1 (off by {worst:.3g}): not attention weights")


def _maps(batch: StateBatch, heads: HeadList, rows: Tensor, n: int) -> Maps:
    starts = batch.mask[rows].int().argmax(1).tolist()  # padding is at one end
    spots = [(row, slice(start, start + n)) for row, start in zip(rows.tolist(), starts, strict=True)]
    layers = [torch.stack([layer[row, :, spot, spot] for row, spot in spots]) for layer in batch.attentions]
    weights = torch.cat(layers, dim=1).float()
    check_sums(weights)
    ids, special = (torch.stack([part[row, spot] for row, spot in spots]) for part in (batch.input_ids, batch.special))
    numbers = [batch.rows[row] for row, _ in spots]
    return Maps(numbers, _as_seen(ids, heads), _as_seen(special, heads), weights, heads)


def _as_seen(tokens: Tensor, heads: HeadList) -> Tensor:
    """[rows, tokens] -> [rows, heads, tokens]. The start token of shifted heads counts as the separator at the end."""
    return torch.where(heads.shifted[:, None], tokens.roll(1, 1)[:, None], tokens[:, None])


def _upper_stacks(model: WhiteBox) -> list[bool]:
    from assay.core.model.edits import layout_of

    return [layer.stack > 0 for layer in layout_of(model.artifact.config, model.artifact.edits).layers]
