"""A graph answers as the torch model it came from, in every family, for any batch and length."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from by_family import families
from exporters import EXPORTERS
from tiny_jobs import carry_out, planted_rows
from tiny_models import tiny_tokenizer, write_tiny

from assay.core.artifact import GRAPH, Artifact, open_source
from assay.core.errors import LimitError
from assay.core.manifest import Manifest
from assay.core.model.anatomy import FAMILIES
from assay.core.model.generations import why_no_optimum
from assay.core.model.load import load_module, load_session
from assay.core.model.predict import open_predictor, run_graph
from assay.core.model.rewrite import NOT_READ
from assay.core.stats import to_probabilities

MakeArtifact = Callable[..., Artifact]
UNEVEN = {0: [0], 1: [1, 2, 3]}
TEXTS = [*planted_rows(8).texts, "", "great"]


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Artifact, Artifact]]:
    """A family's model with uneven heads in its first two layers: the torch folder and its graph, made once."""
    made: dict[str, tuple[Artifact, Artifact]] = {}

    def make(family: str) -> tuple[Artifact, Artifact]:
        if family not in made:
            folder = tmp_path_factory.mktemp(family)
            layers = 2 if len(FAMILIES[family].stacks) == 1 else 3  # an encoder of two, a decoder of one
            write_tiny(folder / "source", family, layers=layers)
            source = open_source(folder / "source", "text-classification")
            remove = {layer: [0, 2] for layer in range(layers)} if FAMILIES[family].shares_layers else UNEVEN
            pruned = carry_out(folder, source, [("prune_heads", {"remove": remove})])
            made[family] = pruned, carry_out(folder, pruned, [("export_onnx", {})])
        return made[family]

    return make


def random_batch(batch: int, tokens: int, end: int) -> dict[str, np.ndarray]:
    """Ids that are no padding, the last of a text its `end`, and a mask that hides up to half of each row."""
    draw = np.random.default_rng(batch * 1000 + tokens)
    lengths = draw.integers((tokens + 1) // 2, tokens + 1, (batch, 1))
    ids = draw.integers(5, 200, (batch, tokens))
    ids[np.arange(batch), lengths[:, 0] - 1] = end
    return {
        "input_ids": ids,
        "attention_mask": (np.arange(tokens) < lengths).astype(np.int64),
    }


def end_of(artifact: Artifact) -> int:
    """The token that ends a text for the model, or any."""
    end = artifact.config.get("eos_token_id")
    return 5 if end is None else end


@pytest.mark.parametrize("family", families("bert"))
def test_no_batch_or_length_is_baked_in(family: str, uneven: Callable[[str], tuple[Artifact, Artifact]]) -> None:
    torch_model, graph = uneven(family)
    module, session = load_module(torch_model), load_session(graph)
    for batch, tokens in [(1, 3), (5, 20), (2, 128)]:
        inputs = random_batch(batch, tokens, end_of(graph))
        with torch.inference_mode():
            expected = module(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits.numpy()
        assert run_graph(session, inputs) == pytest.approx(expected, abs=1e-4), (batch, tokens)


LAST_TOKEN = ("bart", "gpt2", "llama", "t5")  # or that of the end, wherever it is


@pytest.mark.parametrize("family", families("bert", "mpnet", "roberta"))
def test_families_that_read_the_first_token_are_computed_for_it(
    family: str, uneven: Callable[[str], tuple[Artifact, Artifact]]
) -> None:
    rewritten = Manifest.read(uneven(family)[1].path).facts["rewritten"]
    if family in LAST_TOKEN:
        assert (rewritten["first_token_nodes"], rewritten["not_first_token"]) == (0, NOT_READ)
    else:  # o, two maps of the feed-forward, their biases and sums, two norms, the activation
        assert rewritten["first_token_nodes"] >= 11
        assert rewritten["not_first_token"] is None


@pytest.mark.parametrize("family", families("bert", "mpnet", "roberta"))
def test_uneven_heads_answer_the_same_from_both_folders(
    family: str, uneven: Callable[[str], tuple[Artifact, Artifact]]
) -> None:
    torch_model, graph = uneven(family)
    assert open_predictor(graph, 32).logits(TEXTS) == pytest.approx(
        open_predictor(torch_model, 32).logits(TEXTS), abs=1e-4
    )
    parity = Manifest.read(graph.path).facts["parity"]
    assert parity["max_abs"] <= parity["tolerance"] == 1e-4
    assert (parity["flips"], parity["rows"]) == (0, 12)
    absent = why_no_optimum() or ("optimum writes no text-classification graph of t5" if family == "t5" else None)
    assert Manifest.read(graph.path).facts["exporter"] == ("torch (TorchScript)" if absent else "optimum")
    assert Manifest.read(graph.path).facts["exporter_reason"] == absent
    assert graph.edits == torch_model.edits


@pytest.mark.parametrize("family", ["distilbert", "roberta"])
def test_segment_ids_that_the_graph_does_not_know_are_dropped(
    family: str, uneven: Callable[[str], tuple[Artifact, Artifact]], tmp_path: Path
) -> None:
    """The tokenizer of a BERT gives token_type_ids; the graphs of these families have no such input."""
    models = []
    for artifact in uneven(family):
        shutil.copytree(artifact.path, tmp_path / artifact.format)
        tiny_tokenizer("bert").save_pretrained(tmp_path / artifact.format)
        models.append(Artifact(tmp_path / artifact.format, "", artifact.format, artifact.task, family, artifact.edits))
    expected, found = (open_predictor(model, 32) for model in models)
    assert "token_type_ids" in found.encoder.tokenizer("great")
    assert found.logits(TEXTS) == pytest.approx(expected.logits(TEXTS), abs=1e-4)
    inputs = random_batch(2, 7, end=5)
    with_segments = inputs | {"token_type_ids": np.zeros_like(inputs["input_ids"])}
    assert (run_graph(found.session, with_segments) == run_graph(found.session, inputs)).all()


@pytest.mark.skipif(why_no_optimum() is not None, reason=str(why_no_optimum()))
@pytest.mark.parametrize("exporter", ["optimum", "torch"])
def test_the_folder_opens_in_optimum(
    exporter: str, uneven: Callable[[str], tuple[Artifact, Artifact]], tmp_path: Path
) -> None:
    from optimum.onnxruntime import ORTModelForSequenceClassification
    from transformers import AutoTokenizer

    pruned, graph = uneven("bert")  # which optimum has written
    if exporter == "torch":
        graph = carry_out(tmp_path, pruned, [("export_onnx", {"exporter": exporter})])
    model = ORTModelForSequenceClassification.from_pretrained(graph.path)
    inputs = AutoTokenizer.from_pretrained(graph.path)(TEXTS, padding=True, return_tensors="pt")
    assert model(**inputs).logits.numpy() == pytest.approx(open_predictor(graph, 32).logits(TEXTS), abs=1e-4)
    assert model.config.id2label == {0: "neg", 1: "pos"}


def test_the_folder_holds_the_model_and_nothing_else(uneven: Callable[[str], tuple[Artifact, Artifact]]) -> None:
    names = {path.name for path in uneven("bert")[1].path.iterdir()}
    assert {GRAPH, "config.json", "tokenizer.json", "tokenizer_config.json", "manifest.json"} <= names
    assert not [name for name in names if name.endswith((".safetensors", ".bin", ".data"))]


def test_a_difference_beyond_the_tolerance_fails_the_step(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    message = (
        r"the graph differs from bert-0 by \d\.\d+e-\d+ in its logits, more than the tolerance 1e-12 \(0 of 12 rows"
    )
    with pytest.raises(LimitError, match=message):
        carry_out(tmp_path, tiny_artifact(layers=1), [("export_onnx", {"tolerance": 1e-12})])


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_opset_can_be_chosen(exporter: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    graph = carry_out(tmp_path, tiny_artifact(layers=1), [("export_onnx", {"opset": 17, "exporter": exporter})])
    assert onnx.load(graph.path / GRAPH).opset_import[0].version == 17


@pytest.mark.parametrize(
    ("task", "labels"), [("multi-label-classification", ("a", "b", "c")), ("text-regression", ("LABEL_0",))]
)
def test_other_tasks_mean_the_same_in_both(
    task: Any, labels: tuple[str, ...], tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(layers=1, task=task, labels=labels)
    graph = carry_out(tmp_path, source, [("export_onnx", {})])
    expected, found = (to_probabilities(open_predictor(model, 32).logits(TEXTS), task) for model in (source, graph))
    assert found == pytest.approx(expected, abs=1e-4)
    assert found.shape == (len(TEXTS), len(labels))
    if task == "multi-label-classification":
        assert np.abs(found.sum(axis=1) - 1).max() > 0.1  # independent labels: the probabilities are no distribution
