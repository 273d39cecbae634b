"""How the tensors of an ONNX graph hang together: who makes them, who reads them, which are constant, their ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

SMALL = 128  # numbers: shapes and scalars, whose values tell shapes, have fewer; only their values are looked at


@dataclass(frozen=True)
class Wiring:
    """Tensors by name.

    readers:   first output of each node that reads it, for nodes inside of other nodes that of the outer one; an output
               of the graph is read by "graph output NAME"
    constants: those that do not depend on the inputs of the graph
    ranks:     numbers of axes, where known
    scalars:   values of the constants of one number that are stored in the graph itself
    """

    producer: dict[str, NodeProto]
    readers: dict[str, set[str]]
    constants: set[str]
    ranks: dict[str, int]
    scalars: dict[str, float]

    def computed(self, node: NodeProto) -> list[str]:
        """The inputs of the node that depend on those of the graph."""
        return [name for name in node.input if name and name not in self.constants]


def wiring_of(model: ModelProto) -> Wiring:
    """Read from the graph; weights are not looked at."""
    graph = model.graph
    stored = {node.output[0]: node.attribute[0] for node in graph.node if node.op_type == "Constant"}
    tensors = {name: item.t for name, item in stored.items() if item.name == "value"}
    tensors |= {weight.name: weight for weight in graph.initializer}
    single = {name: item for name, item in tensors.items() if _count(item) == 1 and not item.external_data}
    return Wiring(
        producer={name: node for node in graph.node for name in node.output},
        readers=_readers(graph),
        constants=_constants(graph, stored.keys() | tensors.keys()),
        ranks=_ranks(model),
        scalars={name: numpy_helper.to_array(item).item() for name, item in single.items()},
    )


def attribute(node: NodeProto, name: str, default: int) -> int:
    """A whole-number attribute of the node."""
    return next((item.i for item in node.attribute if item.name == name), default)


def _constants(graph: GraphProto, named: set[str]) -> set[str]:
    """Those named, and what is computed of nothing else, as the copies of weights that several layers share."""
    constants = set(named)
    for node in graph.node:  # in an order in which they can run
        reads = {name for name in _reads(node) if name}
        if reads and reads <= constants:
            constants |= set(node.output)
    return constants


def _readers(graph: GraphProto) -> dict[str, set[str]]:
    readers: dict[str, set[str]] = defaultdict(set)
    for node in graph.node:
        for name in _reads(node):
            readers[name].add(node.output[0])
    for output in graph.output:
        readers[output.name].add(f"graph output {output.name}")
    return readers


def _reads(node: NodeProto) -> Iterator[str]:
    yield from node.input
    for item in node.attribute:
        for inner in item.g.node:
            yield from _reads(inner)
        yield from (output.name for output in item.g.output)


def _ranks(model: ModelProto) -> dict[str, int]:
    """As onnx infers them, on a copy whose weights have no content."""
    bare = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = model.graph
    weights = [_without_content(item) if _is_large(item) else item for item in graph.initializer]
    bare.graph.CopyFrom(helper.make_graph(graph.node, "bare", graph.input, graph.output, weights))
    inferred = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
    types = {item.name: item.type.tensor_type for item in (*inferred.value_info, *graph.input, *graph.output)}
    known = {name: len(kind.shape.dim) for name, kind in types.items() if kind.HasField("shape")}
    return known | {item.name: len(item.dims) for item in graph.initializer}


def _is_large(tensor: TensorProto) -> bool:
    return _count(tensor) > SMALL or bool(tensor.external_data)


def _without_content(weight: TensorProto) -> TensorProto:
    return TensorProto(name=weight.name, dims=weight.dims, data_type=weight.data_type)


def _count(tensor: TensorProto) -> int:
    return int(np.prod(tensor.dims))
