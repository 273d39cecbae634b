"""Layers that are dropped or gated away are as good as cut out, and only while the model trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_jobs import context, job_data, step_of, stopping_at
from torch import Tensor

from assay.core.artifact import Artifact
from assay.core.manifest import hash_folder
from assay.core.model.anatomy import FAMILIES
from assay.core.model.blocks import modules_of
from assay.core.model.edits import KeepLayers, apply_edits, layout_of
from assay.core.model.load import load_module
from compress.layer_drop import layers_dropped
from compress.layer_gates import layers_gated
from compress.pruning import scoring_batches

MakeArtifact = Callable[..., Artifact]
RATE = 0.5
SHAPES = ["bert", "mpnet", "deberta-v2", "albert", "llama", "bart", "t5"]


def inputs_of(artifact: Artifact, folder: Path) -> dict[str, Tensor]:
    batch = next(scoring_batches(artifact, context(job_data(), folder), rows=3, batch_size=3))
    return {name: value for name, value in batch.items() if name != "labels"}


def opened(artifact: Artifact) -> Any:
    """The module with no dropout, whose layers think that they are being trained."""
    module = load_module(artifact)
    for layer in modules_of(module, FAMILIES[artifact.family]):
        layer.training = True
        if artifact.family == "bart":  # its layers hold their rates themselves
            layer.dropout = layer.activation_dropout = 0.0
    return module


def dropped_by(seed: int, layers: int) -> list[int]:
    torch.manual_seed(seed)
    return [layer for layer in range(layers) if torch.rand(()) < RATE]


def seed_that_drops(layers: list[int], of: int) -> int:
    return next(seed for seed in range(1000) if dropped_by(seed, of) == layers)


@torch.no_grad()
@pytest.mark.parametrize("family", SHAPES)
def test_a_layer_that_is_dropped_or_gated_away_is_as_good_as_cut_out(
    family: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    artifact = tiny_artifact(family, layers=4)
    inputs, module = inputs_of(artifact, tmp_path), opened(artifact)
    whole = module(**inputs).logits
    torch.manual_seed(seed_that_drops([0, 2], of=4))
    with layers_dropped(module, FAMILIES[family], RATE):
        dropped = module(**inputs).logits
    with layers_gated(module, FAMILIES[family], [torch.tensor(gate) for gate in (0.0, 1.0, 0.0, 1.0)]):
        gated = module(**inputs).logits
    with layers_gated(module, FAMILIES[family], [torch.ones(1)] * 4):
        assert torch.equal(module(**inputs).logits, whole)
    depths = layout_of(artifact.config).depths
    cut = load_module(artifact)
    apply_edits(cut, [KeepLayers(keep=[1, 3], of=depths)], FAMILIES[family])
    torch.testing.assert_close(dropped, cut(**inputs).logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gated, cut(**inputs).logits, atol=1e-5, rtol=1e-5)
    assert (dropped - whole).abs().max() > 1e-3


def test_only_layers_in_training_are_dropped_and_nothing_stays_behind(
    tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    artifact = tiny_artifact(layers=2)
    inputs, module, family = inputs_of(artifact, tmp_path), opened(artifact), FAMILIES["bert"]
    whole = module(**inputs).logits
    torch.manual_seed(seed_that_drops([0, 1], of=2))
    with layers_dropped(module.eval(), family, RATE):
        assert torch.equal(module(**inputs).logits, whole)
    state = torch.get_rng_state()
    with layers_dropped(opened(artifact), family, 0.0):
        assert torch.equal(opened(artifact)(**inputs).logits, whole)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(layer._forward_hooks for layer in modules_of(module, family))


def test_a_dropped_layer_gets_no_gradient(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    artifact = tiny_artifact(layers=2)
    inputs, module, family = inputs_of(artifact, tmp_path), opened(artifact), FAMILIES["bert"]
    torch.manual_seed(seed_that_drops([0], of=2))
    with layers_dropped(module, family, RATE):
        module(**inputs).logits.sum().backward()
    skipped, used = ([each.grad is not None for each in layer.parameters()] for layer in modules_of(module, family))
    assert not any(skipped)
    assert all(used)


def test_layers_go_at_the_rate_that_was_asked_for(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    """A layer that is dropped hands the very states on that it was given."""
    artifact = tiny_artifact(layers=4)
    inputs, module, family = inputs_of(artifact, tmp_path), opened(artifact), FAMILIES["bert"]
    torch.manual_seed(0)
    gone = 0
    with torch.no_grad(), layers_dropped(module, family, 0.2):
        for _ in range(100):
            states = module(**inputs, output_hidden_states=True).hidden_states
            gone += sum(torch.equal(before, after) for before, after in pairwise(states))
    assert 55 <= gone <= 105  # 400 draws, 80 expected, three standard deviations are 24


@pytest.mark.slow
def test_a_resumed_training_with_dropped_layers_is_the_one_that_never_stopped(
    tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(layers=3)
    for rate in (0.0, RATE):
        for name, stop in (("straight", None), ("resumed", 4)):
            out, scratch = tmp_path / f"{name}-{rate}", tmp_path / f"{name}-{rate}-scratch"
            out.mkdir()
            scratch.mkdir()
            step = step_of("finetune", epochs=1.0, batch_size=8, layer_drop=rate)
            ctx = replace(context(job_data(), scratch), checkpoint_seconds=0 if stop else 60)
            if stop:
                with pytest.raises(KeyboardInterrupt):
                    step.apply(source, out, replace(ctx, progress=stopping_at(stop)))
            assert step.apply(source, out, ctx)["resumed_from"] == (stop and stop - 1)
        assert hash_folder(tmp_path / f"resumed-{rate}") == hash_folder(tmp_path / f"straight-{rate}")
    assert hash_folder(tmp_path / f"straight-{RATE}") != hash_folder(tmp_path / "straight-0.0")
