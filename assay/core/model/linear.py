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
    _state_sizes(linear)


@torch.no_grad()
def transform(linear: nn.Module, by: Tensor, dim: int) -> None:
    """Let a linear map x -> W x + b give W' = by^T W and b' = by^T b (dim 0), or read through W' = W by (dim 1), in
    place. `by`: [outputs or inputs before, after], multiplied in float64."""
    if isinstance(linear, FactoredLinear):
        transform((linear.second, linear.first)[dim], by, dim)
        return
    before, by = matrix(linear).double(), by.double()
    after = by.T @ before if dim == 0 else before @ by
    linear.weight = _like(linear.weight, after.T if isinstance(linear, Conv1D) else after)  # type: ignore[arg-type]
    if dim == 0 and linear.bias is not None:
        linear.bias = _like(linear.bias, by.T @ linear.bias.double())  # type: ignore[arg-type, operator]
    _state_sizes(linear)


@torch.no_grad()
def add_bias(linear: nn.Module, read: Tensor) -> None:
    """Let a linear map give what it gives for inputs that are `read` [inputs] further off, in place; it gets a bias
    where it has none."""
    outer = linear.second if isinstance(linear, FactoredLinear) else linear
    more = matrix(linear).double() @ read.double()
    total = more if outer.bias is None else more + outer.bias.double()  # type: ignore[operator]
    outer.bias = _like(outer.weight, total)  # type: ignore[arg-type]


def _like(old: Tensor, values: Tensor) -> nn.Parameter:
    """A new parameter of these values, of the dtype of the old one and trained or not as it is."""
    return nn.Parameter(values.to(old.dtype).contiguous(), requires_grad=old.requires_grad)


def _state_sizes(linear: nn.Module) -> None:
    """Let the attributes that say how large a linear map is follow its weight."""
    outputs, inputs = matrix(linear).shape
    names = ("nf", "nx") if isinstance(linear, Conv1D) else ("out_features", "in_features")
    for name, size in zip(names, (outputs, inputs), strict=True):
        setattr(linear, name, size)


def part_of(parameter: Tensor, index: Tensor, dim: int) -> nn.Parameter:
    """A new parameter of the entries at `index`, trained or not as the old one."""
    return nn.Parameter(parameter.detach().index_select(dim, index), requires_grad=parameter.requires_grad)
