"""A rewritten graph gives the same logits from less work; what is no such pattern stays as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tiny_jobs import carry_out
from tiny_models import write_tiny

from assay.core.artifact import GRAPH, Artifact, open_source
from assay.core.errors import LimitError
from assay.core.manifest import Manifest
from assay.core.model import rewrite as rewriting
from assay.core.model.graph import fused_operators, operators
from assay.core.model.load import load_module, open_graph
from assay.core.model.predict import run_graph
from assay.core.model.rewrite import NOT_READ, keep_first_token, rewrite, sums_before_norms
from assay.core.model.wiring import wiring_of

WIDTH = 8
PRUNED = [
    ("prune_layers", {"layers": [0, 2, 3]}),
    ("prune_heads", {"remove": {0: [1], 3: [0, 1, 3]}}),
    ("prune_ffn", {"fraction": 0.5, "score": "random", "multiple_of": 1}),
]
AS_EXPORTED = [("export_onnx", {"rewrite": False})]
REWRITTEN = [("export_onnx", {})]


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A BERT with 3, 4 and 1 heads in its layers, one layer of four removed and half of the neurons left."""
    folder = tmp_path_factory.mktemp("pruned")
    write_tiny(folder / "bert", layers=4)
    return carry_out(folder, open_source(folder / "bert", "text-classification"), PRUNED)


@pytest.fixture(scope="module")
def plain(pruned: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its graph as the exporter writes it."""
    return carry_out(tmp_path_factory.mktemp("plain"), pruned, AS_EXPORTED).path / GRAPH


@pytest.fixture(scope="module")
def rewritten(pruned: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The artifact with the rewritten graph."""
    return carry_out(tmp_path_factory.mktemp("rewritten"), pruned, REWRITTEN)


def batch(rows: int, tokens: int, hidden: slice) -> dict[str, np.ndarray]:
    """Random ids of which `hidden` is masked in all rows but the first."""
    mask = np.ones((rows, tokens), dtype=np.int64)
    mask[1:, hidden] = 0
    ids = np.random.default_rng(tokens).integers(5, 200, (rows, tokens))
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize(
    "inputs",
    [batch(1, 1, slice(0)), batch(1, 17, slice(0)), batch(5, 20, slice(9, None)), batch(3, 64, slice(0, 30))],
    ids=["one token", "one row", "padded right", "padded left"],
)
def test_uneven_pruned_models_answer_as_torch_in_any_shape(
    inputs: dict[str, np.ndarray], pruned: Artifact, rewritten: Artifact
) -> None:
    with torch.inference_mode():
        expected = load_module(pruned)(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits
    found = run_graph(open_graph(rewritten.path / GRAPH), inputs)
    assert found == pytest.approx(expected.numpy(), abs=1e-4)
    assert np.abs(found).max() > 0.01


def test_the_step_says_what_was_rewritten(plain: Path, rewritten: Artifact) -> None:
    facts = Manifest.read(rewritten.path).facts
    # Output projection with its bias, sum and norm; two maps with biases, five nodes of the Gelu, sum and norm.
    assert facts["rewritten"] == {"first_token_nodes": 15, "not_first_token": None, "sums": 7}
    assert facts["ops"]["Sum"] == 7
    assert "Sum" not in operators(plain)
    assert facts["ops"]["Slice"] == operators(plain)["Slice"] + 2  # the context, and the residual stream beside it
    assert Manifest.read(plain.parent).facts["rewritten"] is None


def products(path: Path, tokens: int) -> list[int]:
    """Tokens that each product of the maps with weights is computed for, in the order of the graph."""
    model = onnx.load(path)
    weights = {item.name for item in model.graph.initializer}
    names = [node.output[0] for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in weights]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    onnx.save(model, path.with_name("shown.onnx"))
    session = open_graph(path.with_name("shown.onnx"))
    ids = np.full((2, tokens), 7, dtype=np.int64)
    feed = {item.name: np.ones_like(ids) if item.name == "attention_mask" else ids % 2 for item in session.get_inputs()}
    return [result.shape[1] for result in session.run(names, feed)]


def test_after_the_last_attention_one_token_is_left(plain: Path, rewritten: Artifact) -> None:
    assert products(plain, 9) == [9] * 3 * 6
    assert products(rewritten.path / GRAPH, 9) == [*[9] * 2 * 6, *[9] * 3, *[1] * 3]  # q, k, v, then o and the FFN


@pytest.mark.parametrize(("form", "skips"), [("plain", True), ("rewritten", False)])
def test_the_eight_bit_graph_has_no_slow_norm(
    form: str, skips: bool, plain: Path, rewritten: Artifact, tmp_path: Path
) -> None:
    source = plain if form == "plain" else rewritten.path / GRAPH
    quantize_dynamic(source, tmp_path / GRAPH, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    found = fused_operators(tmp_path / GRAPH)
    assert ("SkipLayerNormalization" in found) is skips
    assert found["LayerNormalization"] + found.get("SkipLayerNormalization", 0) == 7


def test_the_gate_stops_a_wrong_rewriting(pruned: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second token in the place of the first."""
    monkeypatch.setattr(rewriting, "FIRST", {**rewriting.FIRST, "first_token/starts": 1, "first_token/ends": 2})
    with pytest.raises(LimitError, match=r"the graph differs from .* more than the tolerance 0.0001"):
        carry_out(tmp_path, pruned, REWRITTEN)


def test_an_older_opset_keeps_all_tokens_and_says_so(pruned: Artifact, tmp_path: Path) -> None:
    graph = carry_out(tmp_path, pruned, [("export_onnx", {"opset": 16, "exporter": "torch"})])
    assert Manifest.read(graph.path).facts["rewritten"] == {
        "first_token_nodes": 0,
        "not_first_token": NOT_READ,
        "sums": 0,
    }


def small(nodes: list[onnx.NodeProto], outputs: tuple[str, ...] = ("logits",)) -> ModelProto:
    """A graph over x [batch, tokens, WIDTH] with a map W, a bias b, a row of T for each of 3 tokens, and indices."""
    draw = np.random.default_rng(0)
    shapes = {"W": (WIDTH, WIDTH), "b": (WIDTH,), "T": (3, WIDTH), "s": (WIDTH,)}
    weights = [numpy_helper.from_array(draw.normal(size=size).astype(np.float32), n) for n, size in shapes.items()]
    weights += [numpy_helper.from_array(np.array(number, dtype=np.int64), f"at{number}") for number in (0, 1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "tokens", WIDTH])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "small", [x], ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def node(op: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


READ = node("Gather", "z at0", "logits", axis=1)
CUT = [node("MatMul", "x W", "y"), node("Add", "y b", "z"), READ]
KEPT = {
    "read elsewhere too": [*CUT, node("ReduceSum", "z", "more")],
    "an output itself": [*CUT, node("Identity", "y", "more")],
    "the second token": [*CUT[:2], node("Gather", "z at1", "logits", axis=1)],
    "another axis": [*CUT[:2], node("Gather", "z at0", "logits", axis=2)],
    "tokens mixed": [node("MatMul", "x W", "y"), node("CumSum", "y at1", "z"), READ],
    "a number a token": [node("MatMul", "x W", "y"), node("Add", "y T", "z"), READ],
    "a norm over tokens": [node("MatMul", "x W", "y"), node("LayerNormalization", "y T", "z", axis=1), READ],
    "a computed map": [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "z"), READ],
    "no product": [node("Add", "x b", "z"), READ],
}


def logits(model: ModelProto, path: Path) -> np.ndarray:
    x = np.random.default_rng(1).normal(size=(2, 3, WIDTH)).astype(np.float32)
    onnx.save(model, path)
    return open_graph(path).run(["logits"], {"x": x})[0]


def test_a_chain_of_maps_is_cut(tmp_path: Path) -> None:
    model = small(CUT)
    before = logits(model, tmp_path / "before.onnx")
    assert keep_first_token(model.graph, wiring_of(model)) == 2
    assert [item.op_type for item in model.graph.node] == ["Slice", "MatMul", "Add", "Gather"]
    assert logits(model, tmp_path / "after.onnx") == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize("name", KEPT)
def test_what_needs_all_tokens_is_kept(name: str, tmp_path: Path) -> None:
    more = any("more" in item.output for item in KEPT[name])
    model = small(KEPT[name], ("logits", "more") if more else ("logits",))
    logits(model, tmp_path / "g.onnx")  # it is a graph that runs
    before = model.SerializeToString()
    assert keep_first_token(model.graph, wiring_of(model)) == 0
    assert model.SerializeToString() == before


def test_a_node_inside_a_branch_counts_as_a_reader() -> None:
    """`If` reads tensors of the graph around it without naming them among its inputs."""
    inner = [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)]
    branch = helper.make_graph([node("Identity", "z", "inner")], "branch", [], inner)
    condition = node("ReduceMax", "x", "most", keepdims=0)
    either = (
        node("Cast", "most", "c", to=TensorProto.BOOL),
        node("If", "c", "more", then_branch=branch, else_branch=branch),
    )
    model = small([*CUT, condition, *either], ("logits", "more"))
    assert keep_first_token(model.graph, wiring_of(model)) == 0


def test_only_sums_of_computed_tensors_before_a_norm_are_written_anew() -> None:
    nodes = [
        node("Add", "x b", "biased"),
        node("LayerNormalization", "biased s b", "first", axis=-1),
        node("Add", "first x", "residual"),
        node("LayerNormalization", "residual s b", "second", axis=-1),
        node("Add", "second x", "logits"),
    ]
    model = small(nodes)
    assert sums_before_norms(model.graph, wiring_of(model)) == 1
    assert [item.op_type for item in model.graph.node if "Norm" not in item.op_type] == ["Add", "Sum", "Add"]


def test_weights_beside_the_graph_stay_there(tmp_path: Path) -> None:
    model = small(CUT)
    onnx.save(model, tmp_path / GRAPH, save_as_external_data=True, location="weights.bin", size_threshold=100)
    stored = (tmp_path / "weights.bin").read_bytes()
    x = np.ones((1, 4, WIDTH), dtype=np.float32)
    before = open_graph(tmp_path / GRAPH).run(None, {"x": x})[0]
    assert rewrite(tmp_path / GRAPH).first_token_nodes == 2
    assert open_graph(tmp_path / GRAPH).run(None, {"x": x})[0] == pytest.approx(before, abs=1e-6)
    assert (tmp_path / "weights.bin").read_bytes() == stored
