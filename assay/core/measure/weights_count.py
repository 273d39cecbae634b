"""How many parameters a variant has, and how many of them are not zero: the same rule for torch and ONNX.

A parameter is an element of a trained tensor. In torch: the module's parameters, a tied one once, buffers not at all.
In ONNX: an initializer of floats with at least one axis, or one of integers that stand for floats by a scale. Scales,
zero points, shapes, indices and single constants are not counted; a matrix that the file holds twice counts twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import onnx
    from torch import nn

QUANTIZED, SCALE, ZERO_POINT = "_quantized", "_scale", "_zero_point"  # how onnxruntime's quantizer names tensors


class Count(NamedTuple):
    """Elements, and those of them that are not zero."""

    parameters: int
    nonzero_parameters: int


def count_module(module: nn.Module) -> Count:
    """Elements of the module's parameters; a tensor that two places share counts once."""
    parameters = list(module.parameters())
    return Count(sum(item.numel() for item in parameters), sum(int(item.count_nonzero()) for item in parameters))


def count_graph(path: Path) -> Count:
    """Elements of the graph's weights. A quantized element is zero when it equals its zero point."""
    import onnx

    graph = onnx.load(str(path)).graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    points = _zero_points(graph.node, tensors)
    names = tensors.keys() - _scalings(graph.node, tensors)
    weights = [tensors[name] for name in names if _is_weight(tensors[name], points)]
    counts = [_count(weight, tensors.get(points.get(weight.name, ""))) for weight in weights]
    return Count(sum(count.parameters for count in counts), sum(count.nonzero_parameters for count in counts))


def _zero_points(nodes: Iterable[onnx.NodeProto], names: Iterable[str]) -> dict[str, str]:
    """Quantized tensor -> its zero point ("" where it has none), by name or by the node that turns it to floats."""
    stems = {name: name.removesuffix(QUANTIZED) for name in names if name.endswith(QUANTIZED)}
    points = {name: stem + ZERO_POINT for name, stem in stems.items()}
    scaled = (node.input for node in nodes if node.op_type == "DequantizeLinear")
    return points | {name: point for name, _, point in ([*given, ""][:3] for given in scaled)}


def _scalings(nodes: Iterable[onnx.NodeProto], names: Iterable[str]) -> set[str]:
    """Scales and zero points: by name beside a quantized tensor, or in their place at a node."""
    stems = [name.removesuffix(QUANTIZED) for name in names if name.endswith(QUANTIZED)]
    named = {stem + ending for stem in stems for ending in (SCALE, ZERO_POINT)}
    placed = (node.input[1:] for node in nodes if node.op_type in ("DequantizeLinear", "QuantizeLinear"))
    return named.union(*placed)


def _is_weight(tensor: onnx.TensorProto, quantized: Iterable[str]) -> bool:
    from onnx import TensorProto

    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    return len(tensor.dims) > 0 and (tensor.data_type in floats or tensor.name in quantized)


def _count(tensor: onnx.TensorProto, zero_point: onnx.TensorProto | None) -> Count:
    from onnx.numpy_helper import to_array

    values = to_array(tensor)
    zero = np.zeros(1) if zero_point is None else to_array(zero_point)
    if zero.size > 1 and zero.size != values.shape[-1]:  # one a row instead of one a column
        zero = zero.reshape(-1, *[1] * (values.ndim - 1))
    return Count(values.size, int(np.count_nonzero(values != zero)))
