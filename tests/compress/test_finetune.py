"""A tiny model learns what is planted in the rows, and only that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_jobs import accuracy, carry_out, job_data, planted_rows

from assay.core.artifact import Artifact
from assay.core.errors import InputError
from assay.core.manifest import Manifest
from assay.core.model.load import load_module

MakeArtifact = Callable[..., Artifact]
QUICK = {"epochs": 4.0, "batch_size": 8, "learning_rate": 3e-3, "precision": "fp32"}


def facts(artifact: Artifact) -> dict[str, Any]:
    return Manifest.read(artifact.path).facts


@pytest.mark.parametrize(("shuffled", "low", "high"), [(False, 0.95, 1.0), (True, 0.2, 0.8)])
def test_a_planted_word_is_learned_and_shuffled_labels_are_not(
    shuffled: bool, low: float, high: float, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    train, test = planted_rows(96, seed=0, shuffled=shuffled), planted_rows(40, seed=1, shuffled=shuffled)
    trained = carry_out(tmp_path, tiny_artifact(layers=2), [("finetune", QUICK)], job_data(train, test))
    assert low <= accuracy(trained, test) <= high


def test_facts_tell_how_training_went(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    data = job_data(planted_rows(96))
    found = facts(carry_out(tmp_path, tiny_artifact(layers=2), [("finetune", QUICK)], data))
    assert found["steps"] == 4 * 96 / 8
    assert [point["step"] for point in found["curve"]] == list(range(1, 49))
    assert found["train_loss"] == found["curve"][-1]["loss"]
    assert found["train_loss"] < 0.3 * found["curve"][0]["loss"]
    assert found["resumed_from"] is None
    assert found["precision"] == "fp32"


@pytest.mark.parametrize(("epochs", "steps"), [(0.5, 3), (1.0, 6), (0.01, 1)])
def test_epochs_may_be_a_fraction(epochs: float, steps: int, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    settings = QUICK | {"epochs": epochs}
    found = facts(carry_out(tmp_path, tiny_artifact(layers=1), [("finetune", settings)], job_data(planted_rows(48))))
    assert found["steps"] == steps


def test_a_pretrained_encoder_gets_a_head_for_the_classes_of_the_job(
    tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    data = job_data(planted_rows(8), labels=("bad", "good"))
    trained = carry_out(tmp_path, tiny_artifact(layers=1, headless=True), [("finetune", QUICK)], data)
    assert trained.labels == ("bad", "good")
    assert load_module(trained).classifier.out_features == 2


@pytest.mark.slow
def test_a_pruned_model_recovers_and_stays_pruned(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    train, test = planted_rows(96), planted_rows(40, seed=1)
    chain = [("prune_heads", {"remove": {0: [0, 3]}}), ("finetune", QUICK)]
    trained = carry_out(tmp_path, tiny_artifact(layers=2), chain, job_data(train, test))
    assert accuracy(trained, test) >= 0.95
    assert load_module(trained).bert.encoder.layer[0].attention.self.num_attention_heads == 2


def test_bfloat16_trains_float32_weights(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    settings = QUICK | {"epochs": 1.0, "precision": "bf16"}
    trained = carry_out(tmp_path, tiny_artifact(layers=1), [("finetune", settings)], job_data(planted_rows(16)))
    assert facts(trained)["precision"] == "bf16"
    assert {parameter.dtype for parameter in load_module(trained).parameters()} == {torch.float32}


def test_frozen_layers_stay_and_the_others_learn(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=3)
    trained = carry_out(tmp_path, source, [("finetune", QUICK | {"epochs": 1.0, "freeze": 2})])
    before, after = load_module(source).state_dict(), load_module(trained).state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    fixed = ("bert.embeddings.", "bert.encoder.layer.0.", "bert.encoder.layer.1.")
    assert not [name for name in changed if name.startswith(fixed)]
    assert any(name.startswith("bert.encoder.layer.2.") for name in changed)
    assert "classifier.weight" in changed


def test_freezing_everything_is_refused(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"finetune\.freeze: 3 leaves none of the 3 layers to train"):
        carry_out(tmp_path, tiny_artifact(layers=3), [("finetune", QUICK | {"freeze": 3})])
