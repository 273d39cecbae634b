"""Hidden states of graphs: those of torch under original numbers, also after pruning, and of 8-bit graphs their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_jobs import carry_out, finish, job_data, step_of
from tiny_models import write_tiny

from assay.core.artifact import Artifact, open_source
from assay.core.errors import NotGiven, SettingError
from assay.core.model.graph_states import StatesOfGraph
from assay.core.model.predict import OnnxPredictor, TorchPredictor, WhiteBox, open_predictor
from probe.probe import ProbeContext

MakeArtifact = Callable[..., Artifact]
TEXTS = ["a great movie", "dull", "the plot was slow and the actor was bright", ""]


SHOWING = ("export_onnx", {"hidden_states": True})
PRUNING = [("prune_heads", {"fraction": 0.3, "score": "magnitude"}), ("prune_layers", {"layers": [1, 2]})]


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Two of six heads are gone, and the first of three layers."""
    folder = tmp_path_factory.mktemp("pruned")
    write_tiny(folder / "bert", "bert", layers=3)
    return carry_out(folder, open_source(folder / "bert", "text-classification"), PRUNING)


@pytest.fixture(scope="module")
def graph(pruned: Artifact) -> Artifact:
    return carry_out(pruned.path.parent, pruned, [SHOWING])


def all_states(model: WhiteBox) -> dict[int, list[np.ndarray]]:
    """Of each text the states of its tokens, a layer each."""
    return {
        row: [state[at][batch.mask[at]].numpy() for state in batch.hidden]
        for batch in model.states(TEXTS)
        for at, row in enumerate(batch.rows)
    }


def test_they_are_those_of_torch_under_original_numbers(pruned: Artifact, graph: Artifact) -> None:
    shown, weights = open_predictor(graph, 32), TorchPredictor(pruned, 32)
    assert isinstance(shown, StatesOfGraph)
    assert shown.layers == (1, 2) == weights.layers
    assert shown.heads == weights.heads
    names = {output.name for output in shown.session.get_outputs()}
    assert names == {"logits", "hidden_states.0", "hidden_states.2", "hidden_states.3"}
    found, wanted = all_states(shown), all_states(weights)
    assert found.keys() == wanted.keys() == set(range(len(TEXTS)))
    for row, layers in wanted.items():
        assert len(layers) == 3
        for ours, theirs in zip(found[row], layers, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)
    assert shown.logits(TEXTS) == pytest.approx(weights.logits(TEXTS), abs=1e-4)
    for batch in shown.states(TEXTS):
        assert batch.logits.numpy() == pytest.approx(weights.logits([TEXTS[row] for row in batch.rows]), abs=1e-4)
        assert batch.special[0, 0]
        assert batch.special.sum() == 2


@pytest.mark.slow  # the dynamo exporter of the causal ones takes ten seconds
@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_other_families_show_them_too(family: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    weights = tiny_artifact(family, layers=2)
    shown = open_predictor(carry_out(tmp_path, weights, [SHOWING]), 32)
    assert isinstance(shown, StatesOfGraph)
    wanted = all_states(TorchPredictor(weights, 32))
    for row, layers in all_states(shown).items():
        for ours, theirs in zip(layers, wanted[row], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)


def test_an_eight_bit_graph_shows_its_own(pruned: Artifact, graph: Artifact) -> None:
    """Near those of torch, and not the same: each layer adds what its 8-bit products lose."""
    small = finish(pruned.path.parent, "small", step_of("quantize"), [pruned, graph], job_data(), pruned)
    found, wanted = all_states(open_predictor(small, 32)), all_states(TorchPredictor(pruned, 32))
    lost = [
        max(np.abs(found[row][layer] - wanted[row][layer]).max() for row in wanted) for layer in range(len(wanted[0]))
    ]
    assert 1e-4 < lost[0] < lost[-1] < 1


def test_a_graph_gives_no_attentions_and_a_plain_one_no_states(pruned: Artifact, graph: Artifact) -> None:
    shown = open_predictor(graph, 32)
    with pytest.raises(NotGiven, match="gives no attentions"):
        next(shown.states(TEXTS, attentions=True))
    plain = open_predictor(carry_out(pruned.path.parent, pruned, [("export_onnx", {})]), 32)
    assert type(plain) is OnnxPredictor
    assert shown.logits(TEXTS) == pytest.approx(plain.logits(TEXTS), abs=1e-4)
    examine = ProbeContext(0, job_data(), plain)
    with pytest.raises(NotGiven, match="gives logits only"):
        examine.states.of(plain)
    assert examine.states.of(shown).numbers == (0, 2, 3)


def test_optimum_writes_none() -> None:
    step = step_of("export_onnx", hidden_states=True, exporter="optimum")
    with pytest.raises(SettingError, match="optimum writes classifiers without hidden states"):
        step.check(None, None)
