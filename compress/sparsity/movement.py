"""Prune by where fine-tuning moves the weights (Sanh, Wolf & Rush 2020, "Movement Pruning").

Each weight has a score, learned with it: the model is run with `weight * mask(score)`, and the gradient passes to the
score as if the mask were the score itself, so a score grows while its weight moves away from zero and falls while it
moves towards it, for masked weights as well. Hard: the highest scores stay. Soft: those stay whose sigmoid is above a
threshold, and a penalty on the sigmoids draws all of them down, so that the penalty decides how many stay.

The loop has one learning rate. Scores are stored as `score / rate` with the score's own gradient, which under Adam
is a learning rate `rate` times as high.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from compress.sparsity.gradual import GradualLoss


class MovementLoss(GradualLoss):
    """The hard version. The paper chooses anew at each step, to the end; here each `every` steps, to the end."""

    renews_after_schedule = True

    def __init__(self, *args: Any, rate: float = 1.0) -> None:
        super().__init__(*args)
        self.rate = rate
        self.stored = nn.ParameterList(torch.zeros(mask.shape) for mask in self.masks)

    def importance(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """The scores; what is exactly zero can move nowhere and comes last."""
        return [score.masked_fill(weight == 0, -torch.inf) for score, weight in zip(self.scores, weights, strict=True)]

    def masked(self, place: int, weight: Tensor) -> Tensor:
        """weight * mask, with d/d score = weight * d/d (weight * mask)."""
        score = self.stored[place]
        return weight * (self.masks[place] + score - score.detach())

    @property
    def scores(self) -> list[Tensor]:
        """One tensor a matrix, starting at zero; their gradient is that of what is stored."""
        return [stored + ((self.rate - 1) * stored).detach() for stored in self.stored]


class SoftMovementLoss(MovementLoss):
    """The soft version: `final` is the threshold and `strength` the weight of the mean sigmoid of the scores; both grow
    along the schedule, as in the paper's code. The threshold is applied at each step."""

    def __init__(self, *args: Any, rate: float = 1.0, strength: float = 1.0) -> None:
        super().__init__(*args, rate=rate)
        self.strength = strength

    @torch.no_grad()
    def renew(self, step: int, weights: Sequence[Tensor]) -> None:
        """Mask what is at or below the threshold of this step."""
        threshold = self.schedule.value(step, self.initial, self.final)
        for mask, score in zip(self.masks, self.importance(weights), strict=True):
            mask.copy_(score.sigmoid() > threshold)

    def penalty(self, step: int) -> Tensor:
        """strength * mean over matrices of the mean sigmoid."""
        means = torch.stack([score.sigmoid().mean() for score in self.scores])
        return self.schedule.value(step, 0.0, self.strength) * means.mean()
