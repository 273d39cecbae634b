"""Eight bits are smaller and run on integers; what changes with the layout of a batch is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exporters import EXPORTERS
from onnx import numpy_helper
from tiny_jobs import carry_out, finish, job_data, planted_rows, step_of
from tiny_models import write_tiny

from assay.core.artifact import GRAPH, Artifact, open_source
from assay.core.errors import LimitError
from assay.core.manifest import Manifest
from assay.core.model.graph import integer_operators
from assay.core.model.predict import open_predictor

Quantized = Callable[..., Artifact]
TEXTS = planted_rows(20).texts
LONG = " ".join(planted_rows(12, seed=3).texts)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A two-layer model whose weights outweigh its graph."""
    folder = tmp_path_factory.mktemp("source")
    write_tiny(folder / "bert", layers=2, width=64, neurons=128)
    return open_source(folder / "bert", "text-classification")


@pytest.fixture(scope="module")
def graph(source: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The source in ONNX."""
    return carry_out(tmp_path_factory.mktemp("graph"), source, [("export_onnx", {})])


@pytest.fixture(scope="module")
def quantized(source: Artifact, graph: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    """The graph in 8 bits, made once for each settings."""
    made: dict[str, Artifact] = {}
    folder = tmp_path_factory.mktemp("quantized")

    def make(**settings: Any) -> Artifact:
        key = repr(settings)
        if key not in made:
            name = f"settings{len(made):04}"
            made[key] = finish(folder, name, step_of("quantize", **settings), [source, graph], job_data())
        return made[key]

    return make


@pytest.mark.parametrize("per_channel", [True, False])
def test_it_is_smaller_and_multiplies_integers(
    per_channel: bool, source: Artifact, graph: Artifact, quantized: Quantized
) -> None:
    int8 = quantized(per_channel=per_channel)
    facts = Manifest.read(int8.path).facts
    assert (int8.path / GRAPH).stat().st_size < 0.6 * (graph.path / GRAPH).stat().st_size
    assert facts["integer_ops"] == integer_operators(int8.path / GRAPH) >= 2 * 6  # q, k, v, o and two of the FFN
    assert integer_operators(graph.path / GRAPH) == 0
    assert facts["ops"]["MatMulInteger"] >= 2 * 6


@pytest.mark.parametrize("per_channel", [True, False])
def test_parity_is_that_with_the_torch_weights(per_channel: bool, source: Artifact, quantized: Quantized) -> None:
    int8 = quantized(per_channel=per_channel)
    parity = Manifest.read(int8.path).facts["parity"]
    texts = job_data().validation.texts
    expected, found = (open_predictor(model, 32).logits(texts, 5, 20) for model in (source, int8))
    difference = np.abs(expected - found).max()
    assert 0 < difference <= parity["max_abs"] + 1e-6
    assert parity["max_abs"] < 0.5 < parity["tolerance"]
    assert (parity["rows"], parity["shapes"]) == (
        12,
        [[1, None], [5, 20], [2, 32]],
    )  # the job's texts are cut to 32 tokens


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_graph_of_either_exporter_runs_on_integers(exporter: str, source: Artifact, tmp_path: Path) -> None:
    int8 = carry_out(tmp_path, source, [("export_onnx", {"exporter": exporter}), ("quantize", {})])
    facts = Manifest.read(int8.path).facts
    assert facts["integer_ops"] == integer_operators(int8.path / GRAPH) >= 2 * 6
    assert facts["parity"]["max_abs"] < 0.5


def scales(artifact: Artifact) -> list[int]:
    """Sizes of the weight scales of the matrix products."""
    tensors = onnx.load(artifact.path / GRAPH).graph.initializer
    return [int(np.prod(item.dims)) for item in tensors if "MatMul" in item.name and item.name.endswith("_scale")]


def test_per_channel_has_a_scale_for_each_output(quantized: Quantized) -> None:
    assert {64, 128} <= set(scales(quantized(per_channel=True)))
    assert set(scales(quantized(per_channel=False))) == {1}


@pytest.mark.parametrize(("reduce_range", "low", "high"), [(True, 60, 64), (False, 120, 128)])
def test_reduced_range_leaves_one_bit(reduce_range: bool, low: int, high: int, quantized: Quantized) -> None:
    tensors = onnx.load(quantized(reduce_range=reduce_range).path / GRAPH).graph.initializer
    weights = [numpy_helper.to_array(item) for item in tensors if item.data_type == onnx.TensorProto.INT8]
    largest = max(int(np.abs(weight.astype(np.int64)).max()) for weight in weights)
    assert low <= largest <= high


def test_a_difference_beyond_the_tolerance_fails_the_step(quantized: Quantized) -> None:
    with pytest.raises(LimitError, match=r"by 0\.\d+ in its logits, more than the tolerance 1e-06"):
        quantized(tolerance=1e-6)


def layouts(artifact: Artifact) -> list[np.ndarray]:
    """Logits of the same 20 texts, padded to three lengths, alone, and in eights with one very long neighbour."""
    predictor = open_predictor(artifact, 128)
    padded = [predictor.logits(TEXTS, 20, length) for length in (16, 64, 128)]
    alone = predictor.logits(TEXTS, 1)
    groups = [predictor.logits([*TEXTS[start : start + 7], LONG], 8)[:-1] for start in range(0, 20, 7)]
    return [*padded, alone, np.concatenate(groups)]


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_fp32_answers_do_not_depend_on_the_layout(form: str, source: Artifact, graph: Artifact) -> None:
    first, *others = layouts(source if form == "torch" else graph)
    for other in others:
        assert other == pytest.approx(first, abs=1e-4)


def test_int8_answers_depend_on_the_layout_but_not_on_the_call(quantized: Quantized) -> None:
    """The scale of the activations covers padding and neighbours, so evaluation keeps to one layout."""
    first, *others = layouts(quantized())
    assert max(np.abs(first - other).max() for other in others) > 1e-5
    again = layouts(quantized())
    assert all((a == b).all() for a, b in zip([first, *others], again, strict=True))
