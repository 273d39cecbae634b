"""What is in a graph is counted from the graph itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tiny_models import write_tiny

from assay.core.artifact import GRAPH, open_source
from assay.core.model.export import export
from assay.core.model.graph import as_onnx, fused_operators, integer_operators, operators
from assay.core.model.load import load_module, load_tokenizer


@pytest.fixture
def two_products(tmp_path: Path) -> Path:
    """relu(x W) W, with W [8, 8]."""
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32), "W")
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
        helper.make_node("MatMul", ["z", "W"], ["logits"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "logits")]
    graph = helper.make_graph(nodes, "two_products", ends[:1], ends[1:], [weight])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def test_operators_are_counted_most_frequent_first(two_products: Path) -> None:
    assert list(operators(two_products).items()) == [("MatMul", 2), ("Relu", 1)]


def test_integer_products_are_counted_as_the_runtime_runs_them(two_products: Path) -> None:
    assert integer_operators(two_products) == 0
    quantize_dynamic(two_products, two_products.with_name("int8.onnx"), weight_type=QuantType.QInt8)
    assert integer_operators(two_products.with_name("int8.onnx")) == 2
    assert sorted(path.name for path in two_products.parent.iterdir()) == ["int8.onnx", "model.onnx"]


def test_fused_operators_are_counted_as_the_runtime_makes_them(tmp_path: Path) -> None:
    """erf(x / sqrt 2) + 1, times x / 2, is one Gelu to the runtime; it is five nodes in the file."""
    constants = [
        numpy_helper.from_array(np.float32(value), name) for name, value in [("r", 2**0.5), ("1", 1), ("h", 0.5)]
    ]
    nodes = [
        helper.make_node("Div", ["x", "r"], ["a"]),
        helper.make_node("Erf", ["a"], ["b"]),
        helper.make_node("Add", ["b", "1"], ["c"]),
        helper.make_node("Mul", ["x", "c"], ["d"]),
        helper.make_node("Mul", ["d", "h"], ["logits"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "logits")]
    graph = helper.make_graph(nodes, "gelu", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), tmp_path / "g.onnx")
    assert operators(tmp_path / "g.onnx") == {"Mul": 2, "Div": 1, "Erf": 1, "Add": 1}
    assert fused_operators(tmp_path / "g.onnx") == {"Gelu": 1}


def test_export_leaves_the_module_as_it_was_and_in_evaluation_mode(tmp_path: Path) -> None:
    """Dropout would make the graph answer at random."""
    write_tiny(tmp_path / "bert", layers=1)
    source = open_source(tmp_path / "bert", "text-classification")
    module = load_module(source).train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    export(module, load_tokenizer(source), tmp_path / "onnx")
    assert not module.training
    assert all((value == before[name]).all() for name, value in module.state_dict().items())
    assert "Dropout" not in operators(tmp_path / "onnx" / GRAPH)
    graph = as_onnx(source, tmp_path / "onnx")
    assert (graph.format, graph.key, graph.labels, graph.family) == ("onnx", "", ("neg", "pos"), "bert")
