"""Orthogonal Procrustes distance (Ding et al. 2021, "Grounding Representation Similarity with Statistical Testing").

What is left between two centred sets of vectors, each scaled to unit Frobenius norm, after the best rotation or
reflection of one onto the other: 2 - 2 |X^T Y| with the nuclear norm. Vectors of different widths are compared as if
the narrower had zeros added.
"""

from __future__ import annotations

import math

import torch

from probe.similarity.moments import Moments


def procrustes_distance(moments: Moments, one: int, other: int) -> float:
    """In [0, 2]; 0 where a rotation and a common scale turn one state into the other. NaN where one does not vary."""
    scale = math.sqrt(max(moments.scatter(one), 0) * max(moments.scatter(other), 0))
    if scale == 0:
        return math.nan
    overlap = float(torch.linalg.svdvals(moments.centred(one, other)).sum())
    return max(0.0, 2 - 2 * overlap / scale)
