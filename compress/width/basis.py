"""The directions in which states are largest: principal components (Ashkboos et al. 2024, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def leading_basis(moments: Sequence[Tensor], width: int, mean: Tensor | None = None) -> Tensor:
    """[states, width] of orthonormal columns, float64: of all such bases the one that keeps most of the sum of these
    second moments, each [states, states], among those whose first column is `mean` [states] where it is given."""
    total = torch.stack(list(moments)).sum(0)
    if mean is None:
        return _leading(total, width)
    first = mean[:, None]
    rest = torch.eye(len(total), dtype=torch.float64) - first @ first.T
    others = _leading(rest @ total @ rest - first @ first.T, width - 1)  # the mean comes last, below all that is >= 0
    return torch.cat([first, others], dim=1)


def share_kept(moment: Tensor, basis: Tensor) -> float:
    """How much of the squared length of the states, whose second moment it is, lies in the basis, in [0, 1]."""
    return float((basis.T @ moment @ basis).trace() / moment.trace())


def _leading(moment: Tensor, count: int) -> Tensor:
    """Eigenvectors of the largest eigenvalues, from the largest down."""
    return torch.linalg.eigh(moment).eigenvectors.flip(1)[:, :count]
