"""Learned gates on the ranks of factored maps: the diagonal between the two matrices (Wang et al. 2020, section 3.3).

A pair starts with as many ranks as take the parameters of the one matrix, as in the paper's released code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from assay.core.model.anatomy import Family
from assay.core.model.blocks import blocks_of
from assay.core.model.linear import FactoredLinear, select
from compress.hard_concrete import open_probability
from compress.learned_gates import LearnedGates
from compress.low_rank.ranks import ranks_by_gates


@dataclass(frozen=True)
class Pair:
    """Two maps [rank, inputs] and [outputs, rank] in the place of the map `name` (see `Block.maps`).

    `layers`: original numbers of the layers whose weights it is in; `place`: position of the first of them."""

    layers: tuple[int, ...]
    place: int
    name: str
    outputs: int
    inputs: int

    @property
    def whole(self) -> int:
        """Parameters of the one matrix."""
        return self.outputs * self.inputs

    @property
    def cost(self) -> int:
        """Parameters of one rank."""
        return self.outputs + self.inputs

    @property
    def most(self) -> int:
        """The highest rank at which the pair is not larger than the one matrix."""
        return max(1, self.whole // self.cost)

    def of(self, model: nn.Module, family: Family) -> FactoredLinear:
        """The pair in a live model."""
        block = blocks_of(model, family)[self.place]
        part = block.part(block.maps()[self.name])
        assert isinstance(part, FactoredLinear)
        return part


class RankGates(LearnedGates):
    """One gate a rank of each of `pairs`, all of rank `most`. Sparsity is a share of the parameters of their whole
    matrices."""

    def __init__(self, pairs: Sequence[Pair], rate: float = 1.0) -> None:
        super().__init__(rate)
        self.pairs = list(pairs)
        self.total = sum(pair.whole for pair in pairs)
        self.stored = nn.ParameterList(self.start(pair.most) for pair in pairs)
        for place, pair in enumerate(pairs):
            self.register_buffer(f"kept_{place}", torch.ones(pair.most, dtype=torch.bool))

    @property
    def log_alpha(self) -> list[Tensor]:
        """[ranks] of each pair."""
        return [self.log_alpha_of(each) for each in self.stored]

    @property
    def kept(self) -> list[Tensor]:
        """False where a rank is gone, of each pair; all True until they are decided."""
        return [self.get_buffer(f"kept_{place}") for place in range(len(self.pairs))]

    def expected_sparsity(self) -> Tensor:
        """See `LearnedGates`."""
        chances = zip(self.pairs, self.log_alpha, strict=True)
        left = [pair.cost * open_probability(each).sum().cpu() for pair, each in chances]
        return 1 - torch.stack(left).sum() / self.total

    @torch.no_grad()
    def decide(self, target: float) -> None:
        """Close the lowest gates of the whole model until at least `target` of the parameters is gone."""
        log_alpha, costs = [each.cpu() for each in self.log_alpha], [pair.cost for pair in self.pairs]
        for buffer, stays in zip(self.kept, ranks_by_gates(log_alpha, costs, (1 - target) * self.total), strict=True):
            buffer.copy_(stays)
        self.get_buffer("decided").fill_(True)

    def reached_sparsity(self) -> float:
        """See `LearnedGates`."""
        left = sum(pair.cost * int(kept.sum()) for pair, kept in zip(self.pairs, self.kept, strict=True))
        return 1 - left / self.total

    def gates(self) -> list[Tensor]:
        """What the channels between each pair are multiplied by."""
        return [each.float() for each in self.kept] if self.is_decided else list(map(self.read, self.log_alpha))

    @contextmanager
    def applied(self, model: nn.Module, family: Family) -> Iterator[None]:
        """See `LearnedGates`."""
        gates = (
            [each.float() for each in self.kept] if self.is_decided else [self.read(each) for each in self.log_alpha]
        )
        with ExitStack() as hooks:
            for pair, gate in zip(self.pairs, gates, strict=True):
                hooks.callback(pair.of(model, family).second.register_forward_pre_hook(_times(gate)).remove)
            yield

    def cut(self, model: nn.Module, family: Family) -> None:
        """Take the ranks that are gone out of the pairs of `model`."""
        for pair, kept in zip(self.pairs, self.kept, strict=True):
            part, stay = pair.of(model, family), kept.nonzero().flatten().tolist()
            select(part.first, stay, dim=0)
            select(part.second, stay, dim=1)


def _times(gate: Tensor) -> Any:
    return lambda module, args: (args[0] * gate.to(args[0].device),)
