"""Singular vector canonical correlation analysis (Raghu et al. 2017).

Each model's vectors are reduced to the principal directions that hold a share of the variance, then correlated by CCA;
the similarity is the mean canonical correlation. It does not change under any invertible linear map of what is kept, so
it cannot see that a direction was shrunk, and n rows must be many times the directions k that are kept: unrelated
vectors come out near sqrt(k / n), not near 0.
"""

from __future__ import annotations

import math

import torch

from probe.similarity.moments import Moments


def svcca(moments: Moments, one: int, other: int, variance: float) -> float:
    """Mean canonical correlation, in [0, 1], of a state of the first model with one of the second.

    `variance` is the share kept, in (0, 1]; the paper keeps 0.99. NaN where a state does not vary."""
    x, y = (whitening(moments.centred(state, state), variance) for state in (one, other))
    if not x.shape[1] or not y.shape[1]:
        return math.nan
    correlations = torch.linalg.svdvals(x.T @ moments.centred(one, other) @ y)
    return float(correlations.clamp(max=1).mean())


def whitening(gram: torch.Tensor, variance: float) -> torch.Tensor:
    """[width, kept] map from centred rows to uncorrelated unit columns: the fewest leading principal directions that
    hold that share of the variance. Directions of no variance are never kept."""
    values, directions = torch.linalg.eigh(gram)
    values, directions = values.flip(0), directions.flip(1)
    rank = int((values > values[0] * len(values) * torch.finfo(torch.float32).eps).sum())
    shares = values[:rank].cumsum(0) / values[:rank].sum()
    kept = min(rank, int((shares < variance).sum()) + 1)
    return directions[:, :kept] / values[:kept].sqrt()
