"""Linear maps that may become two of lower rank, plain or weighted by what they read.

Plain, the factors keep most of the matrix W (Eckart & Young 1936). Weighted by `scale`, the root of the mean square of
each input, they keep most of W diag(scale), so that inputs the model does not use cost little: ASVD (Yuan et al. 2023,
https://arxiv.org/abs/2312.05821), which takes the mean absolute input to a tuned power; DRONE (Chen et al. 2021) takes
the whole second moment matrix, of which this is the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from assay.core.model.anatomy import Family
from assay.core.model.blocks import blocks_of
from assay.core.model.layout import Layout
from assay.core.model.linear import matrix
from compress.low_rank.ranks import Spectrum
from compress.sparsity.calibration import input_sums

FLOOR = 1e-3  # of the largest scale: an input that the rows never showed may still come


@dataclass(frozen=True)
class Candidate:
    """A map that may be factored: its name (see `Block.maps`) in the layers of original numbers `layers`, which all
    have these weights. `scale`: [inputs], by what it is weighted."""

    layers: tuple[int, ...]
    name: str
    linear: nn.Module
    scale: Tensor | None = None

    @torch.no_grad()
    def spectrum(self) -> Spectrum:
        """Of the weight, its inputs scaled."""
        outputs, inputs = matrix(self.linear).shape
        return Spectrum(torch.linalg.svdvals(self._scaled()).square(), outputs, inputs)

    @torch.no_grad()
    def approximate(self, rank: int) -> None:
        """Where weighted, write the best matrix of that rank in the place of the weight; plain, nothing needs to be
        done, since the edit finds the best one itself."""
        if self.scale is not None:
            left, values, right = torch.linalg.svd(self._scaled(), full_matrices=False)
            nearest = (left[:, :rank] * values[:rank]) @ right[:rank] / self._floored()
            matrix(self.linear).copy_(nearest)

    def _scaled(self) -> Tensor:
        weight = matrix(self.linear).float()
        return weight if self.scale is None else weight * self._floored()

    def _floored(self) -> Tensor:
        assert self.scale is not None
        return (
            self.scale.clamp_min(FLOOR * float(self.scale.max())) if self.scale.any() else torch.ones_like(self.scale)
        )


def candidates(
    module: nn.Module, family: Family, layout: Layout, layers: Collection[int], wanted: Callable[[str], bool]
) -> list[Candidate]:
    """The maps of these layers (original numbers) whose names are `wanted` and that are not factored yet, each once."""
    blocks, found = blocks_of(module, family), []
    for places in layout.groups:
        numbers = tuple(layout.layers[place].index for place in places)
        block, split = blocks[places[0]], layout.layers[places[0]].ranks
        if numbers[0] in layers:
            names = [name for name in block.maps() if wanted(name) and name not in split]
            found += [Candidate(numbers, name, block.part(block.maps()[name])) for name in names]
    return found


def weighted(module: nn.Module, found: Sequence[Candidate], batches: Sequence[dict[str, Tensor]]) -> list[Candidate]:
    """The same, each with the scale of its inputs on the real tokens of `batches`, up to one factor a map."""
    sums = input_sums(module, [each.linear for each in found], batches, lambda read: read.square().sum(0))
    return [replace(each, scale=total.sqrt()) for each, total in zip(found, sums, strict=True)]
