"""Feed-forward neurons go physically; what a layer keeps is its most important part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_jobs import carry_out, planted_rows, step_of

from assay.core.artifact import Artifact, open_source
from assay.core.manifest import Manifest
from assay.core.model.load import load_module, load_tokenizer, save_module
from assay.core.model.predict import open_predictor

MakeArtifact = Callable[..., Artifact]


def kept_neurons(artifact: Artifact) -> dict[str, int]:
    return Manifest.read(artifact.path).facts["kept_neurons"]


def prune(source: Artifact, folder: Path, **settings: Any) -> Artifact:
    return carry_out(folder, source, [("prune_ffn", {"rows": 8, **settings})])


def test_the_same_share_of_every_layer_goes(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    pruned = prune(tiny_artifact(layers=2, neurons=48), tmp_path, fraction=0.5)
    assert kept_neurons(pruned) == {"0": 24, "1": 24}
    assert Manifest.read(pruned.path).facts["of"] == 48
    assert [layer.intermediate.dense.out_features for layer in load_module(pruned).bert.encoder.layer] == [24, 24]


def test_global_scope_takes_them_where_they_matter_least(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    found = kept_neurons(
        prune(tiny_artifact(layers=2, neurons=48), tmp_path, fraction=0.4, scope="global", multiple_of=1)
    )
    assert sum(found.values()) == 96 - round(0.4 * 96)
    assert len(set(found.values())) == 2


@pytest.mark.parametrize(("multiple_of", "kept"), [(1, 29), (8, 32), (16, 32)])
def test_what_is_kept_is_rounded_up(multiple_of: int, kept: int, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=2, neurons=48)
    pruned = prune(source, tmp_path, fraction=0.4, multiple_of=multiple_of)
    assert kept_neurons(pruned) == {"0": kept, "1": kept}


def test_useless_neurons_go_first_and_change_nothing(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    artifact = tiny_artifact(layers=2, neurons=16)
    module = load_module(artifact)
    with torch.no_grad():
        for layer in module.bert.encoder.layer:
            layer.output.dense.weight[:, ::2] = 0  # even neurons write nothing
    save_module(module, artifact.path, load_tokenizer(artifact))
    source = open_source(artifact.path, "text-classification")
    half, more = (prune(source, tmp_path, fraction=fraction, multiple_of=1) for fraction in (0.5, 0.75))
    assert half.edits[0]["neurons"] == {"0": "1,3,5,7,9,11,13,15", "1": "1,3,5,7,9,11,13,15"}
    before, same, other = (open_predictor(model, 32).logits(planted_rows(6).texts) for model in (source, half, more))
    assert abs(before - same).max() < 1e-5
    assert abs(before - other).max() > 1e-3


@pytest.mark.parametrize("score", ["gradient", "activation"])
def test_silent_neurons_go_first_and_change_nothing(score: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    artifact = tiny_artifact(layers=2, neurons=16)
    module = load_module(artifact)
    with torch.no_grad():
        for layer in module.bert.encoder.layer:
            layer.intermediate.dense.weight[1::2], layer.intermediate.dense.bias[1::2] = 0, -100.0  # gelu gives 0
    save_module(module, artifact.path, load_tokenizer(artifact))
    source = open_source(artifact.path, "text-classification")
    half, control = (prune(source, tmp_path, fraction=0.5, multiple_of=1, score=name) for name in (score, "random"))
    assert half.edits[0]["neurons"] == {"0": "0,2,4,6,8,10,12,14", "1": "0,2,4,6,8,10,12,14"}
    before, same, other = (open_predictor(model, 32).logits(planted_rows(6).texts) for model in (source, half, control))
    assert abs(before - same).max() < 1e-5
    assert abs(before - other).max() > 1e-3


def test_random_neurons_are_not_drawn_again() -> None:
    with pytest.raises(ValueError, match="iterations 2: random scores do not change when neurons go; use 1"):
        step_of("prune_ffn", fraction=0.5, score="random", iterations=2)


def test_pruning_again_names_original_neurons(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=1, neurons=16)
    chain = [("prune_ffn", {"fraction": 0.5, "rows": 8})] * 2
    chain[1] = ("prune_ffn", {"fraction": 0.5, "rows": 8, "multiple_of": 4})
    pruned = carry_out(tmp_path, source, chain)
    first, second = (_numbers(edit["neurons"]["0"]) for edit in pruned.edits)
    assert (len(first), len(second)) == (8, 4)
    assert set(second) < set(first)
    before, after = (load_module(model).bert.encoder.layer[0].intermediate.dense for model in (source, pruned))
    torch.testing.assert_close(after.weight, before.weight[second], atol=0, rtol=0)


def _numbers(ranges: str) -> list[int]:
    bounds = [part.split("-") for part in ranges.split(",")]
    return [number for part in bounds for number in range(int(part[0]), int(part[-1]) + 1)]
