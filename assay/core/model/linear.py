"""Linear maps of a model whatever class holds them: their sizes, their columns, and cutting them.

transformers keeps the maps of GPT-2 in `Conv1D`, whose weight is [in, out]; `nn.Linear` has [out, in].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from assay.core.errors import AssayError


def matrix(linear: nn.Module) -> Tensor:
    """The weight as [out, in], a view of the parameter. AssayError for what is no float linear map."""
    if isinstance(linear, Conv1D):
        return linear.weight.T
    if not isinstance(linear, nn.Linear):
        raise AssayError(f"{type(linear).__name__}: only float linear maps can be looked at or cut")
    return linear.weight


def in_width(linear: nn.Module) -> int:
    """Number of inputs."""
    return matrix(linear).shape[1]


def out_width(linear: nn.Module) -> int:
    """Number of outputs."""
    return matrix(linear).shape[0]


def select(linear: nn.Module, positions: Sequence[int], dim: int) -> None:
    """Keep these outputs (dim 0, with their bias) or inputs (dim 1) of a linear map, in this order, in place."""
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
