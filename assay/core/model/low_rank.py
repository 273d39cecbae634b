"""Two matrices in the place of one, by its singular values (Eckart & Young 1936)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from assay.core.model.linear import FactoredLinear, matrix


@torch.no_grad()
def factors(whole: Tensor, rank: int, empty: bool = False) -> tuple[Tensor, Tensor]:
    """(first [rank, in], second [out, rank]) of `whole` [out, in], in its dtype: of all pairs of that rank the one
    whose product second @ first is nearest to it. The root of each singular value goes to either side, so that both
    train at the same pace. `empty`: zeros of those shapes."""
    rows, columns = whole.shape
    if empty:
        return whole.new_zeros(rank, columns), whole.new_zeros(rows, rank)
    left, values, right = torch.linalg.svd(
        whole.to(torch.promote_types(whole.dtype, torch.float32)), full_matrices=False
    )
    roots = values[:rank].sqrt()
    return (roots[:, None] * right[:rank]).to(whole.dtype), (left[:, :rank] * roots).to(whole.dtype)


def split(linear: nn.Module, rank: int, empty: bool = False) -> FactoredLinear:
    """The two maps of that rank for a linear map, which may be a factored one already, with its bias."""
    whole = matrix(linear)
    outer = linear.second if isinstance(linear, FactoredLinear) else linear
    first, second = factors(whole, rank, empty)
    return FactoredLinear(first, second, outer.bias, outer.weight.requires_grad)  # type: ignore[arg-type]
