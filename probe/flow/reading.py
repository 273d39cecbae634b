"""What the token that a classifier reads has taken from each token of a text, in one model, row by row.

That is the first token, or the last where the family's classifier reads that one. Of a decoder above an encoder only
the decoder's attention to itself is followed: its places read the tokens one place late, behind a start token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from assay.core.model.anatomy import family_of
from probe.flow.rollout import flow, rollouts, with_residual
from probe.heads.maps import HeadList, Maps, maps_of

if TYPE_CHECKING:
    from assay.core.model.encoder import Encoder
    from assay.core.model.predict import WhiteBox
    from probe.flow.token_kinds import PatchKinds, TokenKinds


@dataclass(frozen=True)
class Row:
    """One text of `n` tokens.

    by_layer: float64 [layers, n], the rollout from each layer down
    last:     [n], the attention of the last layer alone
    flow:     [n], None where it was not asked for
    kinds:    int64 [n];  place: that of the token that is read"""

    by_layer: np.ndarray
    last: np.ndarray
    flow: np.ndarray | None
    kinds: np.ndarray
    place: int

    @property
    def looks(self) -> dict[str, np.ndarray | None]:
        """Measure -> [n], which sum to 1: through all layers, by the last layer alone, and all tokens alike."""
        n = len(self.kinds)
        return {
            "rollout": self.by_layer[-1],
            "flow": self.flow,
            "last_layer": self.last,
            "even": np.full(n, 1 / n),
        }

    def distance(self, weights: np.ndarray) -> float:
        """Mean distance in tokens to where the weights [n], which sum to 1, are."""
        return float(weights @ np.abs(np.arange(len(weights)) - self.place))


@dataclass(frozen=True)
class FlowReading:
    """Layers that are followed, by original number, the rows that have two tokens or more, by their place among the
    texts, where the tokens of every text stand in it, and the names of their kinds."""

    layers: list[int]
    rows: dict[int, Row]
    offsets: list[list[tuple[int, int] | None]]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class FlowReader:
    """The texts at the places `flows` have their flow taken, where they have at most `most_tokens` tokens."""

    model: WhiteBox
    encoder: Encoder
    kinds: TokenKinds | PatchKinds
    flows: frozenset[int]
    most_tokens: int

    @cached_property
    def heads(self) -> HeadList:
        """All heads of the model."""
        return HeadList.of(self.model)

    def read(self, texts: Sequence[str]) -> FlowReading:
        """NotGiven from a tokenizer that does not tell where its tokens stand."""
        rows: dict[int, Row] = {}
        for batch in self.model.states(texts, attentions=True):
            for maps in maps_of(batch, self.heads):
                rows |= self._rows(maps)
        layers = [self.model.layers[at] for at, _ in self._followed]
        return FlowReading(layers, dict(sorted(rows.items())), self.encoder.offsets(texts), self.kinds.names)

    @cached_property
    def _followed(self) -> list[tuple[int, slice]]:
        """Positions of the layers of the stack that is read, and their heads in the list of all. A layer without heads
        moves nothing between tokens, and is passed over."""
        ends = np.cumsum(self.heads.counts).tolist()
        spans = [slice(end - count, end) for end, count in zip(ends, self.heads.counts, strict=True)]
        upper = self.heads.shifted.any()
        return [
            (at, span)
            for at, span in enumerate(spans)
            if span.stop > span.start and bool(self.heads.shifted[span.start]) == bool(upper)
        ]

    def _rows(self, maps: Maps) -> dict[int, Row]:
        followed = self._followed
        steps = [with_residual(maps.weights[:, span]) for _, span in followed]  # [rows, tokens, tokens]
        place = maps.weights.shape[-1] - 1 if family_of(self.model.artifact.family).reads_last else 0
        through = torch.stack([each[:, place] for each in rollouts(steps)], dim=1).numpy()  # [rows, layers, tokens]
        _, top = followed[-1]
        last = maps.weights[:, top, place].double().mean(1).numpy()
        kinds = self.kinds.of(maps.ids[:, top.start], maps.special[:, top.start])
        return {
            row: Row(through[at], last[at], self._flow(row, [each[at] for each in steps], place), kinds[at], place)
            for at, row in enumerate(maps.rows)
        }

    def _flow(self, row: int, steps: list[Tensor], place: int) -> np.ndarray | None:
        if row not in self.flows or len(steps[0]) > self.most_tokens:
            return None
        return flow(torch.stack(steps).numpy(), place)
