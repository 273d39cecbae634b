"""How unlike heads are: Jensen-Shannon divergence of what they look at, for all pairs (Clark et al. 2019, "What Does
BERT Look At?", section 6, https://aclanthology.org/W19-4828).

The paper sums over the tokens of a corpus; here it is the mean over texts of the mean over a text's tokens, of which at
most so many are taken, evenly spaced: 0 for heads that look alike, ln 2 for those that never look at the same token.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from probe.heads.maps import Maps


@dataclass
class DivergenceSums:
    """Running sum over rows, [heads, heads] in nats; `queries` tokens of a text are looked from at most."""

    heads: int
    queries: int
    total: Tensor = field(init=False)
    rows: int = 0

    def __post_init__(self) -> None:
        self.total = torch.zeros(self.heads, self.heads, dtype=torch.float64)

    def add(self, maps: Maps) -> None:
        """Count the maps of some rows."""
        rows, heads, n, _ = maps.weights.shape
        places = torch.linspace(0, n - 1, min(n, self.queries)).round().long()
        looks = maps.by_token[:, :, places].transpose(0, 1).reshape(heads, rows * len(places), n)
        self.total += pair_divergences(looks) * rows
        self.rows += rows

    def means(self) -> Tensor:
        """float64 [heads, heads], symmetric, 0 on the diagonal."""
        return self.total / max(self.rows, 1)


def pair_divergences(looks: Tensor) -> Tensor:
    """Distributions [heads, queries, keys] -> float64 [heads, heads]: JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2 in
    nats, mean over queries."""
    heads, own = len(looks), _entropies(looks)
    found = torch.zeros(heads, heads, dtype=torch.float64)
    for at in range(heads - 1):
        between = _entropies((looks[at] + looks[at + 1 :]) / 2) - (own[at] + own[at + 1 :]) / 2
        found[at, at + 1 :] = between.clamp(min=0).double().mean(-1)
    return found + found.T


def _entropies(looks: Tensor) -> Tensor:
    return torch.special.entr(looks).sum(-1)
