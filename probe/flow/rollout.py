"""Attention rollout and attention flow (Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers",
https://aclanthology.org/2020.acl-main.385).

A layer's map is the mean over its heads, half of it given way to the residual connection: (A + I) / 2. Rollout is the
product of the maps up to a layer: how much of each token gets to each place when states were no more than mixed. Flow
takes the maps for capacities, and is the greatest flow from a place in the upper layer down to each token, one token at
a time, divided by their sum. A place lets no more than 1 through, which one token alone nearly always can take, so flow
is far more even than rollout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

UNITS = 2**24  # in a capacity of 1: scipy's flows are whole numbers of 32 bits


def with_residual(weights: Tensor) -> Tensor:
    """Attention [..., heads, tokens, tokens] -> float64 [..., tokens, tokens]; those of a query sum to 1."""
    return (weights.double().mean(-3) + torch.eye(weights.shape[-1], dtype=torch.float64)) / 2


def rollouts(maps: Sequence[Tensor]) -> list[Tensor]:
    """Maps [..., tokens, tokens] of the layers from bottom to top -> the rollout from each layer down to the tokens."""
    found: list[Tensor] = []
    for each in maps:
        found.append(each @ found[-1] if found else each)
    return found


def flow(maps: np.ndarray, place: int) -> np.ndarray:
    """Maps [layers, tokens, tokens] from bottom to top -> float64 [tokens], which sum to 1: the greatest flow from a
    `place` above the last layer to each token. One flow a token: the work grows with layers * tokens ** 3 and more."""
    from scipy.sparse.csgraph import maximum_flow

    layers, n, _ = maps.shape
    graph = _graph(maps)
    found = [float(maximum_flow(graph, layers * n + place, token).flow_value) for token in range(n)]
    return np.array(found) / sum(found)


def _graph(maps: np.ndarray) -> csr_matrix:
    """Capacities between places; the tokens are the first, then come those above the first layer, and so on."""
    from scipy.sparse import block_array, csr_matrix

    layers, n, _ = maps.shape
    blocks: list[list[csr_matrix | None]] = [[None] * (layers + 1) for _ in range(layers + 1)]
    blocks[0][layers] = csr_matrix((n, n), dtype=np.int32)  # gives the first row and the last column their size
    for layer, each in enumerate(maps):
        blocks[layer + 1][layer] = csr_matrix(np.rint(each * UNITS).astype(np.int32))
    return block_array(blocks, format="csr", dtype=np.int32)
