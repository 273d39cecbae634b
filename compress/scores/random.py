"""Random scores from the job's seed: the control that every other score must beat."""

from __future__ import annotations

import torch
from torch import Tensor

from compress.scores.subject import Subject


def score(subject: Subject) -> list[Tensor]:
    """Uniform in [0, 1)."""
    generator = torch.Generator().manual_seed(subject.seed)
    return [torch.rand(size, generator=generator) for size in subject.sizes]
