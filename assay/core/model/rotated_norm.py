"""LayerNorm and RMSNorm of states in another basis (Ashkboos et al. 2024, section 3.2, for RMSNorm).

Where the states z = Q^T x in an orthonormal basis keep all of x, |z| = |x|; where the first column of Q is 1 / sqrt(d),
the first coordinate is the mean times sqrt(d), and zero is what centring makes of it. Of d the original number counts,
however many coordinates are left.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from assay.core.errors import AssayError
from assay.core.model.linear import linear_of, transform


class RotatedNorm(nn.Module):
    """z -> A c / sqrt(|c|^2 / of + eps), c being z [..., width], its first coordinate zero where `centred`; A is the
    linear map `affine`, or nothing where the maps that read the norm have it in their weights.

    of: number of coordinates in the original model."""

    def __init__(self, width: int, of: int, eps: float, centred: bool, affine: nn.Linear | None, like: Tensor) -> None:
        super().__init__()
        self.of, self.eps, self.centred, self.affine = of, eps, centred, affine
        self.register_buffer("counted", (torch.arange(width) >= int(centred)).to(like), persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        """[..., width] -> [..., width]."""
        if self.centred:
            states = states * self.counted.to(states.dtype)  # type: ignore[operator]
        wide = states.to(torch.promote_types(states.dtype, torch.float32))
        scale = torch.rsqrt(wide.square().sum(-1, keepdim=True) / self.of + self.eps)
        normed = (wide * scale).to(states.dtype)
        return normed if self.affine is None else self.affine(normed)


@torch.no_grad()
def rotated(norm: nn.Module, basis: Tensor, folded: bool) -> RotatedNorm:
    """The norm in another basis [width, narrower]. `folded`: without its scale and shift."""
    scale, shift = affine_of(norm)
    like = basis.to(next(iter([*norm.parameters(), *norm.buffers()])))
    affine = None
    if not folded:
        weight = next(norm.parameters())
        whole = scale if scale is not None else torch.eye(len(basis), device=weight.device)
        affine = linear_of(whole.to(weight.dtype), None if shift is None else shift, weight.requires_grad)
        transform(affine, basis, dim=0)
        transform(affine, basis, dim=1)
    return RotatedNorm(basis.shape[1], original_width(norm), _eps(norm), centres(norm), affine, like)


def affine_of(norm: nn.Module) -> tuple[Tensor | None, Tensor | None]:
    """(scale as a matrix [width, width], shift [width]) of a norm; None for what it does not have."""
    if isinstance(norm, RotatedNorm):
        return (None, None) if norm.affine is None else (norm.affine.weight, norm.affine.bias)
    return torch.diag(norm.get_parameter("weight")), getattr(norm, "bias", None)


def centres(norm: nn.Module) -> bool:
    """Whether it subtracts the mean: LayerNorm does, RMSNorm does not."""
    return norm.centred if isinstance(norm, RotatedNorm) else isinstance(norm, nn.LayerNorm)


def mean_direction(norm: nn.Module, width: int) -> Tensor:
    """[width] float64, of length 1: what the norm subtracts lies along it."""
    if isinstance(norm, RotatedNorm):
        return torch.eye(width, dtype=torch.float64)[0]
    return torch.full((width,), width**-0.5, dtype=torch.float64)


def original_width(norm: nn.Module) -> int:
    """Number of coordinates that the states of the original model have."""
    return norm.of if isinstance(norm, RotatedNorm) else len(norm.get_parameter("weight"))


def _eps(norm: nn.Module) -> float:
    for name in ("eps", "variance_epsilon"):
        if hasattr(norm, name):
            return float(getattr(norm, name))
    raise AssayError(f"{type(norm).__name__}: a norm without eps or variance_epsilon")
