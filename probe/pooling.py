"""Hidden states of many texts, reduced to one vector a text and layer while they stream by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from assay.core.errors import AssayError
from assay.core.model.anatomy import family_of

if TYPE_CHECKING:
    import torch

    from assay.core.model.predict import WhiteBox
    from probe.shared_states import SharedStates

Pool = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
Pooling = Literal["mean", "first"]


def pool_mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[batch, tokens, width], [batch, tokens] -> [batch, width]: mean over real tokens, zero where a text has none."""
    real = mask[:, :, None]
    return hidden.masked_fill(~real, 0).sum(1) / real.sum(1).clamp(min=1)


def pool_first(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[batch, tokens, width], [batch, tokens] -> [batch, width]: state of the first real token, on any padding side."""
    first = mask.int().argmax(1)
    return hidden[range(len(hidden)), first]


def pool_last(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """As `pool_first`, of the last real token."""
    last = mask.shape[1] - 1 - mask.int().flip(1).argmax(1)
    return hidden[range(len(hidden)), last]


POOLINGS: dict[Pooling, Pool] = {"mean": pool_mean, "first": pool_first}


def pooled_states(
    model: WhiteBox | SharedStates, texts: Sequence[str], poolings: Sequence[Pooling]
) -> dict[Pooling, list[np.ndarray]]:
    """For each pooling, one float32 [texts, width] a layer, embedding output first, from one pass over the texts.

    "first" is the token that the family's classifier reads: the last one where it reads from left to right."""
    pools = POOLINGS | ({"first": pool_last} if family_of(model.artifact.family).reads_last else {})
    found: dict[Pooling, list[np.ndarray]] = {}
    for batch in model.states(texts):
        check_depth(model, len(batch.hidden))
        for name in poolings:
            pooled = [pools[name](state, batch.mask).float().numpy() for state in batch.hidden]
            if name not in found:
                found[name] = [np.zeros((len(texts), state.shape[1]), np.float32) for state in pooled]
            for layer, vectors in zip(found[name], pooled, strict=True):
                layer[batch.rows] = vectors
    return found


def check_depth(model: WhiteBox | SharedStates, found: int) -> None:
    """AssayError unless a model gave as many hidden states as it has layers, and one of the embedding output."""
    expected = len(model.layers) + 1
    if found != expected:
        where = "the embedding output and each layer"
        raise AssayError(f"{model.artifact.path}: {found} hidden states, expected {expected}: {where}")
