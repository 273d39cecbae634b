"""A student comes to answer as its teacher does, from the teacher's answers alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tiny_jobs import accuracy, carry_out, context, job_data, planted_rows, step_of, with_labels
from tiny_models import write_tiny

from assay.core.artifact import WEIGHTS, Artifact, open_source
from assay.core.errors import InputError
from assay.core.manifest import Manifest
from assay.core.model.load import load_module
from assay.core.model.predict import TorchPredictor, open_predictor
from assay.core.stats import label_loyalty, probability_loyalty

MakeArtifact = Callable[..., Artifact]
QUICK = {"epochs": 4.0, "batch_size": 8, "learning_rate": 3e-3, "precision": "fp32"}
TRAIN, TEST = planted_rows(96), planted_rows(40, seed=1)
WRONG = with_labels(TRAIN, 1 - TRAIN.labels)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Two layers that know the planted words."""
    folder = tmp_path_factory.mktemp("teacher")
    write_tiny(folder / "source", layers=2)
    source = open_source(folder / "source", "text-classification")
    return carry_out(folder, source, [("finetune", QUICK)], job_data(TRAIN, TEST))


def distil(folder: Path, student: Artifact, teacher: Artifact, **settings: Any) -> Artifact:
    """The student after training on the teacher's answers; the labels of the rows are all wrong."""
    return carry_out(folder, student, [("distil", QUICK | settings)], job_data(WRONG, TEST), teacher)


def answers(model: Artifact) -> np.ndarray:
    return open_predictor(model, 32).logits(TEST.texts)


def test_the_student_approaches_the_teacher_and_not_the_labels(
    teacher: Artifact, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    student = tiny_artifact(layers=1, seed=5)
    follows = distil(tmp_path, student, teacher, alpha=1.0)
    misled = distil(tmp_path, student, teacher, alpha=0.0)
    target = answers(teacher)
    assert label_loyalty(answers(follows), target) >= 0.95
    assert label_loyalty(answers(misled), target) <= 0.4
    assert probability_loyalty(answers(student), target) + 0.2 < probability_loyalty(answers(follows), target)


def hidden_distance(student: Artifact, teacher: Artifact) -> float:
    """Mean squared difference of the last states on the test rows."""
    batches = zip(*(TorchPredictor(model, 32).states(TEST.texts) for model in (student, teacher)), strict=True)
    return float(np.mean([((s.hidden[-1] - t.hidden[-1]) ** 2)[s.mask].mean().item() for s, t in batches]))


@pytest.mark.slow
def test_hidden_states_are_learned_too(teacher: Artifact, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    student = tiny_artifact(layers=2, seed=5)
    without, with_hidden = (distil(tmp_path, student, teacher, hidden=hidden, epochs=2.0) for hidden in (0.0, 10.0))
    assert hidden_distance(with_hidden, teacher) < 0.8 * hidden_distance(without, teacher)


@pytest.mark.slow
def test_a_narrow_student_learns_through_projections_that_are_not_shipped(
    teacher: Artifact, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    student = tiny_artifact(layers=2, width=16, seed=5)
    trained = distil(tmp_path, student, teacher, hidden=1.0, layer_map=[[0, 0], [1, 1]])
    curve = Manifest.read(trained.path).facts["curve"]
    assert curve[-1]["loss"] < 0.7 * curve[0]["loss"]
    with safe_open(trained.path / WEIGHTS, "np") as after, safe_open(student.path / WEIGHTS, "np") as before:
        assert sorted(after.keys()) == sorted(before.keys())


def test_layers_are_paired_by_original_number(teacher: Artifact, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    student = carry_out(tmp_path, teacher, [("prune_layers", {"layers": [1]})])
    step = step_of("distil", hidden=1.0)
    *_, loss, weight = step._hidden(student, load_module(student), None, context(job_data(), tmp_path, teacher))
    assert loss.pairs == [(1, 2)]  # place of the state in the hidden states, embeddings first
    assert weight == 1.0


@pytest.mark.slow
def test_a_teacher_with_another_vocabulary_teaches_by_its_answers_only(
    tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    """A Unigram teacher and a WordPiece student read the same text through their own tokenizers."""
    data, student = job_data(TRAIN, TEST), tiny_artifact("bert", layers=1, seed=5)
    longer = QUICK | {"epochs": 8.0, "learning_rate": 6e-3}
    teacher = carry_out(tmp_path, tiny_artifact("xlm-roberta", layers=1), [("finetune", longer)], data)
    assert accuracy(teacher, TEST) >= 0.95
    assert label_loyalty(answers(distil(tmp_path, student, teacher, alpha=1.0)), answers(teacher)) >= 0.95
    with pytest.raises(InputError, match=r"distil\.hidden: student and teacher have different vocabularies"):
        distil(tmp_path, student, teacher, hidden=1.0)


def test_layers_of_the_map_must_be_there(teacher: Artifact, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    message = r"distil\.layer_map: layer 7 is not there; student \[0, 1\], teacher \[0, 1\]"
    with pytest.raises(InputError, match=message):
        distil(tmp_path, tiny_artifact(layers=2), teacher, hidden=1.0, layer_map=[[0, 0], [1, 7]])


@pytest.mark.parametrize("layer_map", [[], [[0]], [[0, 1, 2]], [["0", "1"]]])
def test_a_map_that_is_not_pairs_is_refused_by_name(layer_map: list[Any]) -> None:
    with pytest.raises(ValueError, match="layer_map"):
        step_of("distil", layer_map=layer_map)


def test_without_a_teacher_there_is_nothing_to_learn(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="distil needs a teacher; it can stand in variants only"):
        carry_out(tmp_path, tiny_artifact(layers=1), [("distil", QUICK)])


def test_the_teacher_is_left_as_it_was(teacher: Artifact, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    before = load_module(teacher).state_dict()
    distil(tmp_path, tiny_artifact(layers=1), teacher, hidden=1.0, epochs=0.5)
    torch.testing.assert_close(load_module(teacher).state_dict(), before, atol=0, rtol=0)
