"""IsoScore: how evenly variance is spread over directions (Rudman et al. 2022).

Unlike the partition function of Mu and Viswanath (2018) it does not change with the mean of the vectors, and unlike the
mean cosine it does not call centred vectors isotropic whatever their shape.
"""

from __future__ import annotations

import math

import torch


def iso_score(covariance: torch.Tensor) -> float | None:
    """[width, width], up to a factor -> in [0, 1]: 1 where all directions vary alike, 0 where only one does; about the
    share of directions in use. None where nothing varies or there is one direction only.

    Section 4 of the paper: the eigenvalues, scaled to the length of a vector of ones, and their distance from it."""
    variances = torch.linalg.eigvalsh(covariance).clamp(min=0)
    width, length = len(variances), float(variances.norm())
    if length == 0 or width == 1:
        return None
    scaled = variances * (math.sqrt(width) / length)
    defect = float((scaled - 1).square().sum()) / (2 * (width - math.sqrt(width)))
    used = (width - defect * (width - math.sqrt(width))) ** 2
    return max(0.0, (used - width) / (width * (width - 1)))
