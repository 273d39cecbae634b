"""What does nothing is found and cut while the model trains, and the size asked for is the size that is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_jobs import accuracy, carry_out, context, job_data, planted_rows, step_of, stopping_at, with_labels
from tiny_models import write_tiny

from assay.core.artifact import Artifact, open_finished, open_source
from assay.core.errors import InputError
from assay.core.manifest import Manifest, hash_folder
from assay.core.model.edits import layout_of
from assay.core.model.load import load_module, load_tokenizer, save_module

QUICK = {"epochs": 4.0, "batch_size": 8, "learning_rate": 3e-3, "precision": "fp32"}
GATED = QUICK | {"gate_learning_rate": 0.2}
TRAIN, TEST = planted_rows(96), planted_rows(40, seed=1)
DATA = job_data(TRAIN, TEST)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """One layer that knows the planted words."""
    folder = tmp_path_factory.mktemp("trained")
    write_tiny(folder / "bert", layers=1, neurons=16)
    source = open_source(folder / "bert", "text-classification")
    return carry_out(folder, source, [("finetune", QUICK)], DATA)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("deep") / "bert"
    write_tiny(folder, layers=3, neurons=16)
    return open_source(folder, "text-classification")


def listening_to(head: int, artifact: Artifact, folder: Path) -> Artifact:
    """A copy that only one head writes to: the first token learns of the words around it from that head alone."""
    module = load_module(artifact)
    weight = module.get_submodule("bert.encoder.layer.0.attention.output.dense").weight
    with torch.no_grad():
        weight[:, [channel for channel in range(32) if channel // 8 != head]] = 0
    folder.mkdir()
    save_module(module, folder, load_tokenizer(artifact))
    manifest = Manifest.read(artifact.path)
    assert manifest is not None
    replace(manifest, key=f"listens-to-{head}", files=hash_folder(folder)).write(folder)
    return open_finished(folder)


def pruned(source: Artifact, folder: Path, **settings: Any) -> Artifact:
    return carry_out(folder, source, [("l0_prune", GATED | settings)], DATA)


def facts(artifact: Artifact) -> dict[str, Any]:
    manifest = Manifest.read(artifact.path)
    assert manifest is not None
    return manifest.facts


@pytest.mark.parametrize("head", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_heads_that_write_nothing_go_and_the_one_that_does_stays(head: int, trained: Artifact, tmp_path: Path) -> None:
    after = pruned(listening_to(head, trained, tmp_path / "one"), tmp_path, sparsity=0.75)
    (layer,) = layout_of(after.config, after.edits).layers
    assert layer.heads == (head,)
    found = facts(after)
    assert found["kept_heads"] == {"0": [head]}
    assert found["sparsity"]["reached"] == 0.75
    assert found["gates"]["heads"]["0"][head] == max(found["gates"]["heads"]["0"])
    assert found["multipliers"][0]["lambda_1"] == 0
    assert found["multipliers"][-1]["target"] == 0.75


def test_the_share_of_neurons_that_was_asked_for_goes(trained: Artifact, tmp_path: Path) -> None:
    after = pruned(trained, tmp_path, sparsity=0.25, units=["neurons"], epochs=1.0)
    (layer,) = layout_of(after.config, after.edits).layers
    assert len(layer.neurons) == 12
    assert facts(after)["kept_neurons"] == {"0": 12}


@pytest.mark.slow
def test_layers_go_and_the_depth_is_the_one_asked_for(deep: Artifact, tmp_path: Path) -> None:
    after = pruned(deep, tmp_path, sparsity=0.34, units=["layers"])
    kept = facts(after)["kept_layers"]
    assert len(kept) == 2
    assert [layer.index for layer in layout_of(after.config, after.edits).layers] == kept
    assert load_module(after).config.num_hidden_layers == 2
    assert accuracy(after, TEST) >= 0.85


@pytest.mark.slow
def test_all_kinds_of_units_share_one_sparsity(deep: Artifact, tmp_path: Path) -> None:
    after = pruned(deep, tmp_path, sparsity=0.5, units=["layers", "heads", "neurons"])
    found = facts(after)
    assert found["sparsity"]["reached"] == pytest.approx(0.5, abs=0.02)
    assert set(found["gates"]) == {"layers", "heads", "neurons"}
    for layer in layout_of(after.config, after.edits).layers:
        assert found["kept_heads"][str(layer.index)] == list(layer.heads)
        assert found["kept_neurons"][str(layer.index)] == len(layer.neurons)
    assert accuracy(after, TEST) >= 0.8


@pytest.mark.slow
def test_the_teachers_answers_may_be_learned_on_the_way(trained: Artifact, tmp_path: Path) -> None:
    """All labels are wrong, and what is left follows the teacher."""
    wrong = job_data(with_labels(TRAIN, 1 - TRAIN.labels), TEST)
    settings = GATED | {"sparsity": 0.5, "epochs": 2.0}
    follows, misled = (
        carry_out(tmp_path, trained, [("l0_prune", settings | {"alpha": alpha})], wrong, trained)
        for alpha in (1.0, 0.0)
    )
    assert accuracy(follows, TEST) >= 0.9
    assert accuracy(misled, TEST) <= 0.6
    with pytest.raises(InputError, match="l0_prune with alpha needs a teacher"):
        pruned(trained, tmp_path, sparsity=0.5, alpha=0.5)


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(5, id="while gates are learned"),
        pytest.param(11, id="after they are decided", marks=pytest.mark.slow),
    ],
)
def test_a_resumed_training_is_the_one_that_never_stopped(stop: int, trained: Artifact, tmp_path: Path) -> None:
    step = step_of("l0_prune", **GATED | {"epochs": 1.0, "sparsity": 0.5, "units": ["heads", "neurons"]})
    results = []
    for name, at in (("straight", None), ("resumed", stop)):
        out, scratch = tmp_path / name, tmp_path / f"{name}-scratch"
        out.mkdir()
        scratch.mkdir()
        ctx = replace(context(DATA, scratch, lineage=(trained,)), checkpoint_seconds=0 if at else 60)
        if at:
            with pytest.raises(KeyboardInterrupt):
                step.apply(trained, out, replace(ctx, progress=stopping_at(at)))
        results.append(step.apply(trained, out, ctx))
    assert [each["resumed_from"] for each in results] == [None, stop - 1]
    assert hash_folder(tmp_path / "resumed") == hash_folder(tmp_path / "straight")
    for fact in ("gates", "kept_heads", "multipliers", "sparsity"):
        assert results[0][fact] == results[1][fact]


def test_layers_that_share_weights_are_refused(tmp_path: Path) -> None:
    write_tiny(tmp_path / "albert", "albert", layers=2)
    layout = layout_of(open_source(tmp_path / "albert", "text-classification").config)
    with pytest.raises(InputError, match=r"l0_prune\.units: layers of this model share weights; use prune_heads"):
        step_of("l0_prune", sparsity=0.5).check(layout, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": ["heads", "heads"]}, r"units \['heads', 'heads'\] name one twice"),
        ({"target_warmup": 0.8}, r"target_warmup 0\.8 must be below decide 0\.75"),
        ({"units": []}, "units"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step_of("l0_prune", sparsity=0.5, **settings)
