"""Random weights go: the control that every other method must beat. Weights that are zero already go first."""

from __future__ import annotations

import torch

from compress.sparsity.subject import Subject


def prune(subject: Subject) -> None:
    """In place, drawn from the job's seed."""
    generator = torch.Generator().manual_seed(subject.seed)
    weights = [each.weight for each in subject.matrices]
    drawn = [torch.rand(weight.shape, generator=generator).masked_fill(weight == 0, -1) for weight in weights]
    subject.zero(subject.matrices, drawn)
