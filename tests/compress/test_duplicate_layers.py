"""Repeats run where they should, with the weights of their layers, live, loaded anew and in the graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from by_family import case
from pydantic import ValidationError
from tiny_jobs import carry_out, step_of
from torch import Tensor

from assay.core.artifact import WEIGHTS, Artifact
from assay.core.errors import InputError, SettingError
from assay.core.manifest import Manifest
from assay.core.model.anatomy import FAMILIES
from assay.core.model.blocks import modules_of
from assay.core.model.edits import DuplicateLayers, edit_from_json, layout_of
from assay.core.model.load import load_module

MakeArtifact = Callable[..., Artifact]
IDS = torch.tensor([[2, 40, 41, 42, 43, 44, 3], [2, 50, 51, 3, 0, 0, 0]])
INPUTS = {"input_ids": IDS, "attention_mask": (torch.arange(7) < torch.tensor([[7], [4]])).long()}
TWICE = ("duplicate_layers", {"layers": [1, 2]})


def facts(artifact: Artifact) -> dict[str, Any]:
    manifest = Manifest.read(artifact.path)
    assert manifest is not None
    return manifest.facts


def by_hand(model: Any, order: list[int]) -> Tensor:
    """Logits of a BERT classifier whose layers run in that order, written out."""
    states = model.bert.embeddings(input_ids=IDS)
    hidden = (1.0 - INPUTS["attention_mask"][:, None, None, :]) * torch.finfo(torch.float32).min
    for number in order:
        found = model.bert.encoder.layer[number](states, hidden)
        states = found[0] if isinstance(found, tuple) else found
    return model.classifier(model.bert.pooler(states))


@torch.no_grad()
def test_layers_run_again_right_after_themselves(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert", layers=3)
    made = carry_out(tmp_path, source, [("duplicate_layers", {"layers": [1], "times": 3})])
    model, before = load_module(made), load_module(source)
    torch.testing.assert_close(model(**INPUTS).logits, by_hand(before, [0, 1, 1, 1, 2]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(before(**INPUTS).logits, by_hand(before, [0, 1, 2]), atol=1e-5, rtol=1e-5)
    assert (model(**INPUTS).logits - before(**INPUTS).logits).abs().max() > 1e-2
    assert facts(made)["order"] == [0, 1, 3, 4, 2]
    assert facts(made)["repeats"] == {"3": 1, "4": 1}
    assert model.config.num_hidden_layers == 5
    assert model.num_parameters() == before.num_parameters()
    assert abs((made.path / WEIGHTS).stat().st_size - (source.path / WEIGHTS).stat().st_size) < 1024
    assert Manifest.read(made.path).edits == [{"edit": "duplicate_layers", "layers": [1], "times": 3, "of": 3}]


@pytest.mark.parametrize(
    "family", [case("bert", slow=False), *(case(name, slow=True) for name in ("albert", "gpt2", "mpnet", "t5"))]
)
def test_a_chain_after_it_cuts_layer_and_repeat_alike_and_the_graph_says_the_same(
    family: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    """Numbers stay, those of repeats too."""
    heads, layers = {"fraction": 0.25, "rows": 4}, {"layers": [0, 1, 4, 3]}
    chain = [TWICE, ("prune_heads", heads), ("prune_layers", layers)]
    made = carry_out(tmp_path, tiny_artifact(family), chain)
    layers = layout_of(made.config, made.edits).layers
    assert [layer.index for layer in layers] == [0, 1, 4, 3]
    assert layers[1].heads == layers[2].heads
    model = load_module(made)
    _, second, third, _ = modules_of(model, FAMILIES[family])
    assert second is third
    graph = carry_out(tmp_path, made, [("export_onnx", {})])
    assert facts(graph)["parity"]["max_abs"] < 1e-4


def test_numbers_go_on_where_they_were_left(tiny_artifact: MakeArtifact) -> None:
    """Also of layers that are gone, and of repeats of before."""
    layout = layout_of(tiny_artifact("bert", layers=4).config)
    cut = step_of("prune_layers", layers=[0, 1]).check(layout, None)
    once = step_of("duplicate_layers", layers=[1]).check(cut, None)
    again = step_of("duplicate_layers", layers=[0, 4]).check(once, None)
    assert [layer.index for layer in again.layers] == [0, 5, 1, 4, 6]
    assert [layer.owner for layer in again.layers] == [0, 0, 1, 1, 1]


def test_edits_that_do_not_fit_are_refused(tiny_artifact: MakeArtifact) -> None:
    layout = layout_of(tiny_artifact("bert", layers=3).config)
    edit = DuplicateLayers([2, 0], 2, 3)
    assert edit_from_json(edit.to_json()) == edit
    with pytest.raises(InputError, match="made for a model of 4 layers, this one has 3"):
        DuplicateLayers([0], 2, 4).apply(layout)
    with pytest.raises(InputError, match=r"layers \[0, 0\] name one twice"):
        DuplicateLayers([0, 0], 2, 3).apply(layout)
    with pytest.raises(InputError, match="times 1 repeats nothing"):
        DuplicateLayers([0], 1, 3).apply(layout)
    with pytest.raises(InputError, match="duplicate_layers: layer 7 is not in the model; present: 0, 1, 2"):
        DuplicateLayers([7], 2, 3).apply(layout)
    with pytest.raises(SettingError, match=r"duplicate_layers\.layers: 7 is not among the layers present, 0-2"):
        step_of("duplicate_layers", layers=[7]).check(layout, None)
    with pytest.raises(ValidationError, match=r"layers \[1, 1\] name one twice; give times instead"):
        step_of("duplicate_layers", layers=[1, 1])
