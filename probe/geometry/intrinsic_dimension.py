"""TwoNN: the dimension of the surface on which vectors lie (Facco et al. 2017).

From the ratio of the distances to the two nearest neighbours, whose logarithm is exponential with the dimension as its
rate. With n vectors high dimensions come out too low, since neighbours are then far apart: a figure to compare between
models on the same rows, and a lower bound.
"""

from __future__ import annotations

import torch

KEPT = 0.9  # the paper leaves the largest tenth of the ratios out of the fit


def two_nn(vectors: torch.Tensor) -> float | None:
    """[rows, width] -> intrinsic dimension; None with fewer than 10 distinct rows. Equal rows count once."""
    distinct = torch.unique(vectors.double(), dim=0)
    if len(distinct) < 10:
        return None
    distances = torch.cdist(distinct, distinct, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distances.fill_diagonal_(torch.inf).topk(2, largest=False).values
    ratios = (nearest[:, 1] / nearest[:, 0]).log().sort().values
    return _slope(ratios, len(distinct))


def _slope(ratios: torch.Tensor, n: int) -> float | None:
    """Line through the origin of -log(1 - F) against sorted log ratios, with F their empirical distribution."""
    kept = int(KEPT * n)
    x, heights = ratios[:kept], -torch.log1p(-torch.arange(1, kept + 1, dtype=torch.float64) / n)
    squares = float(x.square().sum())
    return float(x @ heights) / squares if squares else None
