"""Linear maps of a model whatever class holds them: their sizes, their columns, and cutting them.

transformers keeps the maps of GPT-2 in `Conv1D`, whose weight is [in, out]; `nn.Linear` has [out, in]. A factored map
is a pair of smaller ones: its outputs are cut from the second, its inputs from the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from assay.core.errors import AssayError


class FactoredLinear(nn.Module):
    """x -> second(first(x)), in the place of one linear map: weights [rank, in] and [out, rank], the bias with the
    second."""

    def __init__(self, first: Tensor, second: Tensor, bias: Tensor | None, requires_grad: bool = True) -> None:
        super().__init__()
        self.first = linear_of(first, None, requires_grad)
        self.second = linear_of(second, bias, requires_grad)

    def forward(self, states: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        return self.second(self.first(states))

    @property
    def weight(self) -> Tensor:
        """The second's, [out, rank]. Not the matrix of the map: models ask their maps for its dtype (T5 does)."""
        return self.second.weight

    @property
    def rank(self) -> int:
        """Number of channels between the two."""
        return self.first.out_features


def linear_of(weight: Tensor, bias: Tensor | None = None, requires_grad: bool = True) -> nn.Linear:
    """A linear map of these values, [out, in] and [out]; draws no random numbers, as `nn.Linear` would."""
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    made.weight = nn.Parameter(weight.detach().contiguous(), requires_grad)
    if bias is not None:
        made.bias = nn.Parameter(bias.detach(), requires_grad)
    return made


def matrix(linear: nn.Module) -> Tensor:
    """The weight as [out, in]: a view of the parameter, or of a factored map the product. AssayError for what is no
    float linear map."""
    if isinstance(linear, FactoredLinear):
        return linear.second.weight @ linear.first.weight
    if isinstance(linear, Conv1D):
        return linear.weight.T
    if not isinstance(linear, nn.Linear):
        raise AssayError(f"{type(linear).__name__}: only float linear maps can be looked at or cut")
    return linear.weight


def in_width(linear: nn.Module) -> int:
    """Number of inputs."""
    return matrix(linear.first if isinstance(linear, FactoredLinear) else linear).shape[1]


def out_width(linear: nn.Module) -> int:
    """Number of outputs."""
    return matrix(linear.second if isinstance(linear, FactoredLinear) else linear).shape[0]


def select(linear: nn.Module, positions: Sequence[int], dim: int) -> None:
    """Keep these outputs (dim 0, with their bias) or inputs (dim 1) of a linear map, in this order, in place."""
    if isinstance(linear, FactoredLinear):
        select((linear.second, linear.first)[dim], positions, dim)
        return
    index = torch.tensor(positions, device=matrix(linear).device)
    stored = 1 - dim if isinstance(linear, Conv1D) else dim
    linear.weight = part_of(linear.weight, index, stored)  # type: ignore[arg-type]
    if dim == 0 and linear.bias is not None:
        linear.bias = part_of(linear.bias, index, 0)  # type: ignore[arg-type]
    outputs, inputs = matrix(linear).shape
    names = ("nf", "nx") if isinstance(linear, Conv1D) else ("out_features", "in_features")
    for name, size in zip(names, (outputs, inputs), strict=True):
        setattr(linear, name, size)


def part_of(parameter: Tensor, index: Tensor, dim: int) -> nn.Parameter:
    """A new parameter of the entries at `index`, trained or not as the old one."""
    return nn.Parameter(parameter.detach().index_select(dim, index), requires_grad=parameter.requires_grad)
