"""Anisotropy: the mean cosine of two random tokens (Ethayarajh 2019, "How Contextual are Contextualized Word
Representations?").

Near 0 where directions are used evenly, near 1 where all vectors lie in a narrow cone. Nothing is subtracted here: it
is the baseline that the paper subtracts from its other cosines. The paper draws pairs; this is the mean over all.
"""

from __future__ import annotations

import torch


def mean_cosine(directions: torch.Tensor, n: int) -> float | None:
    """`directions` [width] is the sum of `n` unit vectors; None for fewer than two.

    The squared length of that sum is n and twice the sum of the cosines of all pairs."""
    return None if n < 2 else float((directions.square().sum() - n) / (n * (n - 1)))
