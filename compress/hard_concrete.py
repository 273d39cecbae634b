"""Gates in [0, 1] that are exactly 0 or 1 with some probability and still have a gradient (Louizos, Welling & Kingma
2018, "Learning Sparse Neural Networks through L0 Regularization").

A binary concrete variable is stretched from (0, 1) to (LOW, HIGH) and clamped to [0, 1]. Pure functions of `log_alpha`,
which grows as a gate opens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TEMPERATURE, LOW, HIGH = 2 / 3, -0.1, 1.1  # the paper's, section 4.1
EDGE = 1e-6  # uniform noise stays this far from 0 and 1, as in the paper's code


def open_probability(log_alpha: Tensor) -> Tensor:
    """P(gate != 0), eq. 12; its sum is the expected number of units that are left, the L0 norm."""
    return torch.sigmoid(log_alpha - TEMPERATURE * math.log(-LOW / HIGH))


def gate(log_alpha: Tensor, noise: Tensor) -> Tensor:
    """A gate drawn with uniform `noise` in (0, 1), eq. 10 and 11; the shape of `log_alpha`."""
    return _stretch(torch.sigmoid((torch.logit(noise) + log_alpha) / TEMPERATURE))


def drawn(log_alpha: Tensor) -> Tensor:
    """A gate drawn with noise from torch's random state."""
    return gate(log_alpha, torch.rand(log_alpha.shape).clamp(EDGE, 1 - EDGE).to(log_alpha.device))


def settled(log_alpha: Tensor) -> Tensor:
    """The gate without noise, eq. 13."""
    return _stretch(torch.sigmoid(log_alpha))


def _stretch(concrete: Tensor) -> Tensor:
    return (concrete * (HIGH - LOW) + LOW).clamp(0, 1)
