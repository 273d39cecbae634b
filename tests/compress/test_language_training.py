"""Language models in training: losses by hand, masked and causal learning, distillation, scores, an interruption."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from by_family import case
from tiny_jobs import carry_out, context, job_data, step_of, stopping_at
from torch import nn

from assay.core.artifact import WEIGHTS, Artifact, LanguageTask, Task, is_language
from assay.core.data.prepare import Split
from assay.core.errors import InputError, SettingError
from assay.core.evaluate_language import answer
from assay.core.manifest import Manifest
from assay.core.model.edits import layout_of
from assay.core.model.language import LanguageModel
from assay.core.model.load import load_module
from assay.core.model.predict import open_predictor
from assay.core.model.questions import NOT_ASKED
from compress.losses.distil import DistilLoss
from compress.losses.task import batch_loss

MakeArtifact = Callable[..., Artifact]
QUICK = {"epochs": 6.0, "batch_size": 8, "learning_rate": 3e-3, "precision": "fp32"}
TEXTS = ["the great film was good", "the slow plot was dull", "a man and a woman", "one two three best"] * 12
ROWS = Split(TEXTS, np.zeros(len(TEXTS), np.int64), list(range(1, len(TEXTS) + 1)))
BOTH = [case("bert", "fill-mask", slow=False), case("gpt2", "text-generation", slow=True)]


def data_of(task: LanguageTask) -> Any:
    return job_data(ROWS, ROWS.take(range(4)), task, labels=())


def nll(model: Artifact) -> float:
    """Mean over the tokens asked of four texts."""
    found = answer(cast(LanguageModel, open_predictor(model, 32)), TEXTS[:4])
    return float(found.nll.sum() / found.tokens.sum())


class Fixed(nn.Module):
    """A language model whose logits are given: its base hands places on, and its head picks theirs."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.base_model = Base()
        self.logits = logits

    def forward(self, input_ids: torch.Tensor, **options: Any) -> SimpleNamespace:
        """The base's states are the numbers of the places, which say what is in the logits."""
        vocabulary = self.logits.shape[-1]
        places = self.base_model(input_ids)["last_hidden_state"]
        return SimpleNamespace(logits=self.logits.reshape(-1, vocabulary)[places])


class Base(nn.Module):
    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"last_hidden_state": torch.arange(ids.numel()).reshape(ids.shape)}


def test_the_loss_is_the_mean_over_the_tokens_that_are_asked() -> None:
    logits = torch.zeros(2, 3, 4)
    logits[0, 1] = torch.tensor([0.0, math.log(5), 0, 0])  # 5 of 8
    logits[1, 2] = 100  # not asked
    ids, labels = torch.ones(2, 3, dtype=torch.int64), torch.full((2, 3), NOT_ASKED)
    labels[0, 1], labels[1, 0] = 1, 3
    expected = (math.log(8 / 5) + math.log(4)) / 2
    assert batch_loss(Fixed(logits), {"input_ids": ids}, labels, "fill-mask").item() == pytest.approx(expected)
    nothing = torch.full((2, 3), NOT_ASKED)
    assert batch_loss(Fixed(logits), {"input_ids": ids}, nothing, "text-generation").item() == 0


def test_the_teacher_is_asked_at_the_same_places() -> None:
    ours, theirs = torch.zeros(1, 2, 2), torch.zeros(1, 2, 2)
    theirs[0, 0] = torch.tensor([math.log(3), 0.0])  # 3/4, 1/4
    theirs[0, 1] = 50
    batch = {"input_ids": torch.tensor([[1, 2]]), "labels": torch.tensor([[0, NOT_ASKED]]), "row": torch.tensor([0])}
    loss = DistilLoss(1.0, 0.9, "fill-mask", None, Fixed(theirs))
    divergence = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert loss(Fixed(ours), batch).item() == pytest.approx(0.9 * divergence + 0.1 * math.log(2), rel=1e-5)


@pytest.mark.parametrize(("family", "task"), BOTH)
def test_training_makes_the_texts_likely_and_a_student_follows(
    family: str, task: LanguageTask, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family, task=task, layers=2)
    teacher = carry_out(tmp_path, source, [("finetune", QUICK)], data_of(task))
    assert nll(teacher) < 0.6 * nll(source)
    pruned = carry_out(tmp_path, teacher, [("prune_layers", {"keep": 1})], data_of(task))
    student = carry_out(tmp_path, pruned, [("distil", QUICK | {"epochs": 3.0, "hidden": 1.0})], data_of(task), teacher)
    models = [cast(LanguageModel, open_predictor(model, 32)) for model in (pruned, student, teacher)]
    before, after = (answer(model, TEXTS[:4], models[-1]).kl for model in models[:2])
    assert before is not None
    assert after is not None
    assert after.sum() < 0.7 * before.sum()


def test_scores_of_heads_come_from_the_loss_of_naming_tokens(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert", task="fill-mask", layers=2)
    pruned = carry_out(tmp_path, source, [("prune_heads", {"fraction": 0.5})], data_of("fill-mask"))
    manifest = Manifest.read(pruned.path)
    assert manifest is not None
    scores = np.array(list(manifest.facts["scores"].values()))
    assert (scores > 0).all()
    assert np.linalg.norm(scores, axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("prune_layers", {"keep": 1, "strategy": "greedy"}, r"greedy holds all answers .* use block_influence"),
        ("prune_heads", {"fraction": 0.5, "score": "ablation"}, r"ablation holds all answers .* use gradient"),
        ("factorise", {"embedding_rank": 4}, r"only the embedding of classifiers"),
    ],
)
def test_what_does_not_fit_a_language_model_is_refused_before_any_training(
    name: str, settings: dict[str, Any], message: str, tiny_artifact: MakeArtifact
) -> None:
    layout, step = layout_of(tiny_artifact("bert").config, []), step_of(name, **settings)
    step.check_task("text-classification", layout, layout)
    with pytest.raises(SettingError, match=message):
        step.check_task("fill-mask", layout, layout)


def test_a_student_of_other_tokens_is_refused(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source, message = tiny_artifact("bert", task="fill-mask", layers=2), "learns from a teacher of the same tokens"
    layout = layout_of(source.config, [])
    with pytest.raises(SettingError, match=message):
        step_of("distil").check_task("fill-mask", step_of("cut_vocab").check(layout, layout), layout)
    with pytest.raises(InputError, match=message):
        carry_out(tmp_path, source, [("cut_vocab", {}), ("distil", QUICK)], data_of("fill-mask"), source)


@pytest.mark.parametrize(
    ("family", "task", "frozen"),
    [
        ("bert", "fill-mask", {"bert.embeddings", "bert.encoder.layer.0", "cls.predictions.decoder"}),
        ("gpt2", "text-generation", {"transformer.wte", "transformer.wpe", "transformer.h.0", "lm_head"}),
        ("llama", "text-classification", {"model.embed_tokens", "model.layers.0"}),
        ("t5", "text-classification", {"transformer.shared", "transformer.encoder.block.0"}),
    ],
)
def test_freezing_holds_the_embeddings_and_the_lowest_layers_alone(
    family: str, task: Task, frozen: set[str], tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family, task=task, layers=2)
    settings, data = QUICK | {"epochs": 0.2, "freeze": 1}, data_of(task) if is_language(task) else job_data()
    trained = carry_out(tmp_path, source, [("finetune", settings)], data)
    before, after = load_module(source), load_module(trained).state_dict()
    same = {name for name, value in before.state_dict().items() if torch.equal(value, after[name])}
    inside = tuple(f"{part}." for part in frozen)
    learns = [name for name, value in before.named_parameters() if not name.startswith(inside)]
    assert {name for name in after if name.startswith(inside) and "bias" not in name} <= same
    assert len(same.intersection(learns)) < len(learns) / 4  # a bias of keys has no gradient, for one


@pytest.mark.parametrize("method", ["magnitude", "movement"])
def test_sparse_training_of_a_language_model(method: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert", task="fill-mask", layers=1)
    settings = QUICK | {"epochs": 1.0, "method": method, "fraction": 0.5}
    sparse = carry_out(tmp_path, source, [("sparse_finetune", settings)], data_of("fill-mask"))
    weights = load_module(sparse).bert.encoder.layer[0].intermediate.dense.weight
    assert 0.2 < float((weights == 0).float().mean()) < 0.9


def test_a_resumed_training_hides_the_same_tokens(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source, step = tiny_artifact("bert", task="fill-mask", layers=1), step_of("finetune", **QUICK | {"epochs": 2.0})
    found = []
    for name, stop in (("straight", None), ("stopped", 8)):
        out, scratch = tmp_path / name, tmp_path / f"{name}-scratch"
        out.mkdir()
        scratch.mkdir()
        ctx = replace(context(data_of("fill-mask"), scratch), checkpoint_seconds=0)
        if stop:
            with suppress(KeyboardInterrupt):
                step.apply(source, out, replace(ctx, progress=stopping_at(stop)))
        facts = step.apply(source, out, ctx)
        assert (facts["resumed_from"] is not None) == (stop is not None)
        found.append(hashlib.sha256((out / WEIGHTS).read_bytes()).hexdigest())
    assert found[0] == found[1]
