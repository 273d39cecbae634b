"""Linear centred kernel alignment (Kornblith et al. 2019, "Similarity of Neural Network Representations Revisited").

In feature space, |Y^T X|^2 / (|X^T X| |Y^T Y|) of centred vectors with Frobenius norms: 1 for vectors that are equal up
to rotation and one common scale. That plain form is biased: of n independent vectors of width d it gives about
d / (n + d), not 0. The debiased form puts the unbiased estimate of HSIC (Song et al. 2007) in the place of each norm,
as the code released with the paper does; it is about 0 for independent vectors and may fall a little below.
"""

from __future__ import annotations

import math

from probe.similarity.moments import Moments


def linear_cka(moments: Moments, one: int, other: int, debiased: bool = True) -> float:
    """CKA of a state of the first model with one of the second, by their numbers in `moments`.

    NaN where one of them does not vary, or where fewer than 4 rows leave nothing to estimate from."""
    if moments.n < 4:
        return math.nan
    same = [_alignment(moments, state, state, debiased) for state in (one, other)]
    if min(same) <= 0:
        return math.nan
    return _alignment(moments, one, other, debiased) / math.sqrt(same[0] * same[1])


def cka_matrix(moments: Moments, debiased: bool = True) -> list[list[float]]:
    """CKA of each state of the first model (rows) with each of the second."""
    return [[linear_cka(moments, *pair, debiased) for pair in row] for row in moments.pairs]


def _alignment(moments: Moments, one: int, other: int, debiased: bool) -> float:
    """The squared norm of X^T Y, or n (n - 3) times the unbiased estimate of HSIC."""
    squared = float(moments.centred(one, other).square().sum())
    if not debiased:
        return squared
    n = moments.n
    scatters = moments.scatter(one) * moments.scatter(other)
    return squared - n / (n - 2) * moments.coupled_norms(one, other) + scatters / ((n - 1) * (n - 2))
