"""What the shape of an attention map is told by: a few figures of a map of any length.

Each is in [0, 1] or near it. Masses are shares of all attention in a map, whose queries count alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEAR = (-2, -1, 0, 1, 2)  # diagonals
TOP = 3  # columns
FEATURES = 9


def features(maps: Tensor, causal: bool) -> Tensor:
    """float32 [maps, tokens, tokens] -> [maps, 9]. `causal`: a token sees those before it only."""
    n = maps.shape[-1]
    received = maps.mean(1)  # [maps, tokens]
    columns = received.sort(descending=True).values
    diagonals = torch.stack([maps.diagonal(offset, 1, 2).mean(1) for offset in NEAR], 1)
    by_columns = torch.stack([received[:, max(0, at) : n + min(0, at)].mean(1) for at in NEAR], 1)
    entropy = torch.special.entr(maps).sum(-1).mean(1) / torch.log(torch.tensor(float(n)))
    alike = columns.square().sum(1) / maps.square().sum(-1).mean(1)  # 1 where all rows are the same
    return torch.stack(
        [
            columns[:, 0],
            columns[:, :TOP].sum(1),
            diagonals.max(1).values,
            (diagonals - by_columns).sum(1),  # beyond what the columns they cross give them
            block_mass(maps, causal),
            entropy,
            alike,
            maps.max(-1).values.mean(1),
            torch.full((len(maps),), 1 / n),
        ],
        dim=1,
    )


def block_mass(maps: Tensor, causal: bool) -> Tensor:
    """[maps]: attention within the two parts of a text less that of even attention, for the cut where it is most."""
    seen = torch.ones_like(maps[:1])
    seen = seen.tril() if causal else seen
    even = seen / seen.sum(2, keepdim=True)
    return (_within(maps) - _within(even)).max(1).values


def _within(maps: Tensor) -> Tensor:
    """[maps, cuts]: share of the attention that stays on its side, for the cuts that leave a quarter on each."""
    n = maps.shape[-1]
    sums = maps.cumsum(1).cumsum(2)  # [.., i, j]: attention of the first i + 1 queries to the first j + 1 keys
    cuts = torch.arange(max(1, n // 4), n - max(1, n // 4) + 1)
    first = sums[:, cuts - 1, cuts - 1]
    after = sums[:, -1:, -1] - sums[:, cuts - 1, -1] - sums[:, -1, cuts - 1] + first
    return (first + after) / n
