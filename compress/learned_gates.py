"""What all gates that are learned share: their speed, and that they are rounded once and for all.

The loop has one learning rate: what is stored is `log_alpha / rate` with the gradient of `log_alpha` itself, which
under Adam is a learning rate `rate` times as high.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from assay.core.model.anatomy import Family
from compress.hard_concrete import drawn, settled

START = 2.0  # log_alpha: gates are open with probability 0.97 at first


class LearnedGates(nn.Module, ABC):
    """Gates that a loss trains along with the model. They are rounded by `decide`, which buffers hold, so that a
    checkpoint does."""

    def __init__(self, rate: float = 1.0) -> None:
        super().__init__()
        self.rate = rate
        self.register_buffer("decided", torch.zeros((), dtype=torch.bool))

    @property
    def is_decided(self) -> bool:
        """Whether the gates are rounded."""
        return bool(self.get_buffer("decided"))

    @abstractmethod
    def expected_sparsity(self) -> Tensor:
        """Share of the weights that can go which is expected to be gone, from the probabilities of open gates."""

    @abstractmethod
    def reached_sparsity(self) -> float:
        """Share of the weights that can go which is gone."""

    @abstractmethod
    def decide(self, target: float) -> None:
        """Round the gates for good, so that the share `target` of the weights goes."""

    @abstractmethod
    def applied(self, model: nn.Module, family: Family) -> AbstractContextManager[None]:
        """The model with its gates while the context lasts; one draw for all its passes."""

    def start(self, size: int) -> nn.Parameter:
        """What to store of `size` gates at first."""
        return nn.Parameter(torch.full((size,), START / self.rate))

    def log_alpha_of(self, stored: Tensor) -> Tensor:
        """`log_alpha` of what is stored, with its gradient."""
        return stored + ((self.rate - 1) * stored).detach()

    def read(self, log_alpha: Tensor) -> Tensor:
        """Gates that are not rounded: drawn anew in training, else without noise."""
        return (drawn if self.training else settled)(log_alpha)
