"""What each head brings from each token: the norm of the vector that it adds, not the attention weight alone (Kobayashi
et al. 2020, "Attention is Not Only a Weight", https://aclanthology.org/2020.emnlp-main.574).

A head's output at token i is the sum over j of a(i, j) f(x_j), where a is its attention weight and f(x_j) its value of
token j, bias included, through its part of the output projection. The size of a contribution is |a(i, j) f(x_j)|; where
f(x_j) is short, a large weight brings little. Every real token counts as a token that looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from probe.heads.maps import HeadList, Maps, maps_of

if TYPE_CHECKING:
    from assay.core.model.predict import StateBatch, TorchPredictor
    from probe.flow.token_kinds import PatchKinds, TokenKinds

FEWEST_KEYS = 3  # tokens that are looked at, to have an order
DIGITS = 6  # to which lengths of vectors are exact in float32: what differs less is tied
WAYS = ("weight", "contribution")


@dataclass(frozen=True)
class Brought:
    """Rows of one length: their attention, and `lengths` [rows, heads, tokens], |f(x_j)| of each head."""

    maps: Maps
    lengths: Tensor

    @cached_property
    def sizes(self) -> Tensor:
        """|a(i, j) f(x_j)|, [rows, heads, tokens, tokens]."""
        return self.maps.weights * self.lengths[:, :, None]


def read_contributions(model: TorchPredictor, heads: HeadList, texts: Sequence[str]) -> Iterator[Brought]:
    """Stream of rows of two tokens and more, of all heads together. The model's layers are hooked meanwhile."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.projections import output_maps, watch_projections

    family = family_of(model.artifact.family)
    outputs = output_maps(model.module, family)
    with watch_projections(model.module, family) as last:
        for batch in model.states(texts, attentions=True):
            values = [each.of_each_head(each.v) for each in last()]
            lengths = torch.cat([lengths_of(*pair) for pair in zip(values, outputs, strict=True)], dim=1)
            for maps in maps_of(batch, heads):
                yield Brought(maps, _without_padding(lengths, batch, maps))


@torch.no_grad()
def lengths_of(values: Tensor, output: Tensor) -> Tensor:
    """[batch, heads, tokens]: lengths of each head's values [batch, heads, tokens, head_dim] once they are through its
    part of the output projection [heads, width, head_dim]."""
    return torch.linalg.vector_norm(values @ output.transpose(1, 2), dim=-1).float()


def _without_padding(lengths: Tensor, batch: StateBatch, maps: Maps) -> Tensor:
    places = [batch.rows.index(row) for row in maps.rows]
    starts = batch.mask[places].int().argmax(1).tolist()  # padding is at one end
    n = maps.weights.shape[-1]
    return torch.stack([lengths[at, :, start : start + n] for at, start in zip(places, starts, strict=True)])


@dataclass
class ContributionSums:
    """Running sums of all heads: memory does not grow with rows. The order of the tokens that are looked at is taken
    from at most `queries` tokens of a text, evenly spaced.

    on_kinds:    [2, heads, kinds] of weights and of contributions, each a share of all that a token takes in
    looking:     [2, heads] tokens whose share there is, since one that takes in nothing has none
    size:        [heads] of all that is brought;  tokens: those that look
    correlation, correlated: [2, heads], of the weights with the lengths |f(x_j)|, and with the contributions"""

    heads: HeadList
    kinds: TokenKinds | PatchKinds
    queries: int
    rows: int = 0
    tokens: int = 0
    on_kinds: Tensor = field(init=False)
    looking: Tensor = field(init=False)
    size: Tensor = field(init=False)
    correlation: np.ndarray = field(init=False)
    correlated: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.heads.numbers)
        self.on_kinds = torch.zeros(len(WAYS), count, len(self.kinds.names), dtype=torch.float64)
        self.looking = torch.zeros(len(WAYS), count, dtype=torch.float64)
        self.size = torch.zeros(count, dtype=torch.float64)
        self.correlation, self.correlated = np.zeros((2, count)), np.zeros((2, count))

    def add(self, brought: Brought) -> None:
        """Count some rows."""
        rows, _, n, _ = brought.maps.weights.shape
        self.rows, self.tokens = self.rows + rows, self.tokens + rows * n
        self.size += brought.sizes.double().sum((0, 2, 3))
        self._add_shares(brought)
        self._add_orders(brought)

    def _add_shares(self, brought: Brought) -> None:
        for shifted in self.heads.shifted.unique().tolist():
            mine = (self.heads.shifted == shifted).nonzero()[:, 0]
            kinds = self.kinds.of(brought.maps.ids[:, mine[0]], brought.maps.special[:, mine[0]])  # [rows, tokens]
            member = torch.eye(len(self.kinds.names))[torch.from_numpy(kinds)][:, None]  # [rows, 1, tokens, kinds]
            for way, amounts in enumerate((brought.maps.weights, brought.sizes)):
                taken = amounts[:, mine].sum(-1, keepdim=True)  # [rows, heads, tokens, 1]
                shares = (amounts[:, mine] / taken.clamp(min=torch.finfo(taken.dtype).tiny)) @ member
                self.on_kinds[way, mine] += shares.double().sum((0, 2))
                self.looking[way, mine] += (taken > 0).double().sum((0, 2, 3))

    def _add_orders(self, brought: Brought) -> None:
        n = brought.maps.weights.shape[-1]
        for place in np.linspace(0, n - 1, min(n, self.queries)).round().astype(int).tolist():
            for causal in self.heads.causal.unique().tolist():
                seen = place + 1 if causal else n
                if seen >= FEWEST_KEYS:
                    self._add_order(brought, (self.heads.causal == causal).nonzero()[:, 0], place, seen)

    def _add_order(self, brought: Brought, mine: Tensor, place: int, seen: int) -> None:
        """Of the heads `mine`, of one token that looks at the first `seen`."""
        weights = brought.maps.weights[:, mine, place, :seen].numpy()
        lengths = brought.lengths[:, mine, :seen].numpy()
        rounded = (lengths / np.maximum(lengths.max(-1, keepdims=True), np.finfo(np.float32).tiny)).round(DIGITS)
        for which, others in enumerate((rounded, weights * lengths)):
            found = rank_correlations(weights, others)  # [rows, heads]
            self.correlation[which, mine.numpy()] += np.nansum(found, axis=0)
            self.correlated[which, mine.numpy()] += np.isfinite(found).sum(axis=0)

    def told(self) -> list[dict[str, Any]]:
        """Plain data of each head; None for a share or a correlation that there is none of."""
        return [{"layer": layer, "head": head, **self._of(at)} for at, (layer, head) in enumerate(self.heads.numbers)]

    def _of(self, head: int) -> dict[str, Any]:
        shares = {
            way: {
                kind: _mean(self.on_kinds[at, head, where], self.looking[at, head])
                for where, kind in enumerate(self.kinds.names)
            }
            for at, way in enumerate(WAYS)
        }
        with_lengths, with_sizes = (_mean(self.correlation[at, head], self.correlated[at, head]) for at in (0, 1))
        about = {"size": float(self.size[head] / self.tokens), "spearman_length": with_lengths}
        return {**shares, **about, "spearman_contribution": with_sizes}


def _mean(total: Any, count: Any) -> float | None:
    return float(total / count) if count else None


def rank_correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Spearman's correlation along the last axis; NaN where all of one are alike."""
    from scipy.stats import rankdata

    ranks = [rankdata(each, axis=-1) for each in (x, y)]
    one, other = (each - each.mean(-1, keepdims=True) for each in ranks)
    with np.errstate(invalid="ignore"):
        return (one * other).sum(-1) / np.sqrt((one**2).sum(-1) * (other**2).sum(-1))
