"""Prune by size while the model trains (Zhu & Gupta 2017): the smallest weights are masked, more and more of them.

The model is run with `weight * mask`; what is masked gets no gradient and keeps its value until the end, so that it may
come back while masks are still renewed. After the schedule they are held.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call

from compress.sparsity.choose import lowest_of_groups
from compress.sparsity.matrices import Matrix
from compress.sparsity.schedule import Cubic

if TYPE_CHECKING:
    from assay.core.train import Loss


class GradualLoss(nn.Module):
    """Another loss, of the model with masked weights. Masks and the number of steps done are buffers, so that a
    checkpoint holds them.

    `groups` tells which matrices compete with each other: those with equal keys. `initial` and `final` are the shares
    of weights masked at the two ends of the schedule. `settle` makes the zeros real when training is done."""

    renews_after_schedule = False

    def __init__(
        self,
        loss: Loss,
        matrices: Sequence[Matrix],
        groups: Sequence[Hashable],
        schedule: Cubic,
        initial: float,
        final: float,
    ) -> None:
        super().__init__()
        self.loss, self.groups, self.schedule, self.initial, self.final = loss, groups, schedule, initial, final
        self.names = [each.name for each in matrices]
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        for place, each in enumerate(matrices):
            self.register_buffer(f"mask_{place}", torch.ones_like(each.parameter, dtype=torch.bool))

    def forward(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        """Scalar: the loss of the masked model, and the penalty where there is one."""
        weights = [model.get_parameter(name) for name in self.names]
        counter = self.get_buffer("step")
        step = int(counter)
        self.renew(step, weights)
        masked = [self.masked(place, weight) for place, weight in enumerate(weights)]
        loss = self.loss(MaskedModel(model, dict(zip(self.names, masked, strict=True))), batch) + self.penalty(step)
        counter += 1
        return loss

    @torch.no_grad()
    def renew(self, step: int, weights: Sequence[Tensor]) -> None:
        """Choose anew what is masked, where the schedule says so."""
        if not self.schedule.due(step, self.renews_after_schedule):
            return
        fraction = self.schedule.value(step, self.initial, self.final)
        gone = lowest_of_groups(self.importance(weights), self.groups, fraction)
        for mask, each in zip(self.masks, gone, strict=True):
            mask.copy_(~each)

    def importance(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """One tensor of each weight's shape; the lowest are masked."""
        return [weight.abs() for weight in weights]

    def masked(self, place: int, weight: Tensor) -> Tensor:
        """What the model is run with in the place of the weight."""
        return weight * self.masks[place]

    def penalty(self, step: int) -> Tensor | float:
        """What is added to the loss."""
        return 0.0

    @property
    def masks(self) -> list[Tensor]:
        """False where a weight is masked, one tensor a matrix."""
        return [self.get_buffer(f"mask_{place}") for place in range(len(self.names))]

    @torch.no_grad()
    def settle(self, model: nn.Module) -> None:
        """Set what is masked to zero in the model itself."""
        for name, mask in zip(self.names, self.masks, strict=True):
            model.get_parameter(name).masked_fill_(~mask, 0)


class MaskedModel(nn.Module):
    """A model run with other weights in the place of some of its own."""

    def __init__(self, model: nn.Module, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self._model, self._weights = (model,), weights  # a tuple, so that it is no part of this module

    @property
    def base_model(self) -> object:
        """That of the model, whose hooks count here too."""
        return self._model[0].base_model

    def forward(self, **inputs: Tensor) -> object:
        """The model's output."""
        return functional_call(self._model[0], self._weights, kwargs=inputs)
