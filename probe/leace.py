"""LEACE, least-squares concept erasure in closed form (Belrose et al. 2023, https://arxiv.org/abs/2306.03819).

Of all affine maps after which no linear classifier can do better than name the majority, the one that moves the states
least, in squared distance (theorem 4.3):

    r(x) = x - W+ P W (x - mean),    W = S_xx^(-1/2), P the projection onto the columns of W S_xz,

S_xx the covariance of the states, S_xz that of states and one-hot labels, W+ the pseudo-inverse of W. The guarantee is
for the rows it was fitted on; on others the concept is erased as far as their covariances agree. The authors' code may
shrink S_xx towards the identity and cuts singular values of W S_xz below 0.01; here nothing is shrunk, and only what
is rounding is cut, so that the theorem holds on the fitted rows also where they are fewer than the dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

RANK_TOLERANCE = 1e-8  # singular values are correlations times class deviations, so in [0, 1]; less is rounding


@dataclass(frozen=True)
class Eraser:
    """x -> x - (x - mean) reads' writes'. `mean` [width], `reads` [rank, width], `writes` [width, rank], float64.

    An oblique projection: reads @ writes is the identity, so erasing twice is erasing once."""

    mean: Tensor
    reads: Tensor
    writes: Tensor

    @property
    def rank(self) -> int:
        """Dimensions that are lost."""
        return len(self.reads)

    def __call__(self, states: Tensor) -> Tensor:
        """[..., width] -> [..., width], in the precision of the states. As the map is affine, the mean of a text's
        erased tokens is the erased mean of its tokens."""
        mean, reads, writes = (part.to(states) for part in (self.mean, self.reads, self.writes))
        return states - (states - mean) @ reads.T @ writes.T


def fit_leace(states: Tensor, labels: Tensor) -> Eraser:
    """The eraser of integer `labels` [rows] from `states` [rows, width]; its rank is at most the classes less one."""
    rows, _ = states.shape
    states = states.double()
    mean = states.mean(0)
    centred, concept = states - mean, _one_hot(labels)
    whiten, colour = _roots(centred.T @ centred / rows)
    basis = _column_space(whiten @ (centred.T @ concept / rows))
    return Eraser(mean, basis.T @ whiten, colour @ basis)


def random_eraser(mean: Tensor, rank: int, seed: int) -> Eraser:
    """The orthogonal projection that loses `rank` directions drawn evenly, about `mean` [width]: the control of amnesic
    probing (Elazar et al. 2021, section 3.2)."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(len(mean), rank, generator=generator, dtype=torch.float64)
    directions, _ = torch.linalg.qr(drawn)
    return Eraser(mean, directions.T, directions)


def moved(eraser: Eraser, states: Tensor) -> float:
    """Mean squared change of `states` [rows, width], as a fraction of their variance."""
    states = states.double()
    spread = (states - states.mean(0)).square().sum()
    return float((eraser(states) - states).square().sum() / spread) if spread else 0.0


def _one_hot(labels: Tensor) -> Tensor:
    """float64 [rows, classes]."""
    _, places = labels.unique(return_inverse=True)
    return torch.nn.functional.one_hot(places).double()


def _roots(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """(S^(-1/2), S^(1/2)) on the space in which the states vary, 0 off it."""
    values, vectors = torch.linalg.eigh(covariance)
    varies = values > values[-1] * len(values) * torch.finfo(values.dtype).eps
    values, vectors = values[varies].sqrt(), vectors[:, varies]
    return (vectors / values) @ vectors.T, (vectors * values) @ vectors.T


def _column_space(matrix: Tensor) -> Tensor:
    """An orthonormal basis [width, rank]."""
    left, sizes, _ = torch.linalg.svd(matrix, full_matrices=False)
    return left[:, sizes > RANK_TOLERANCE]
