"""Weights go while the model trains: by size on the schedule, or by where training moves them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_jobs import accuracy, carry_out, context, job_data, planted_rows, step_of, stopping_at, with_labels
from tiny_models import write_tiny
from torch import Tensor, nn

from assay.core.artifact import Artifact, open_source
from assay.core.errors import InputError
from assay.core.manifest import Manifest, hash_folder
from assay.core.model.load import load_module
from compress.sparsity.gradual import GradualLoss
from compress.sparsity.matrices import Matrix, prunable
from compress.sparsity.movement import MovementLoss, SoftMovementLoss
from compress.sparsity.schedule import Cubic

QUICK = {"epochs": 4.0, "batch_size": 8, "learning_rate": 3e-3, "precision": "fp32"}
TRAIN, TEST = planted_rows(96), planted_rows(40, seed=1)
DATA = job_data(TRAIN, TEST)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("source") / "bert"
    write_tiny(folder, layers=1)
    return open_source(folder, "text-classification")


def train(source: Artifact, folder: Path, **settings: Any) -> Artifact:
    return carry_out(folder, source, [("sparse_finetune", QUICK | settings)], DATA)


def facts(artifact: Artifact) -> dict[str, Any]:
    return Manifest.read(artifact.path).facts


def zeros(artifact: Artifact) -> dict[str, Tensor]:
    return {each.label: each.weight == 0 for each in prunable(load_module(artifact), artifact)}


@pytest.mark.parametrize("method", ["magnitude", "movement"])
def test_the_fraction_is_met_and_the_planted_word_is_learned(method: str, source: Artifact, tmp_path: Path) -> None:
    trained = train(source, tmp_path, method=method, fraction=0.7)
    found = facts(trained)
    assert found["sparsity"]["fraction"] == pytest.approx(0.7, abs=1e-3)
    assert found["steps"] == 48
    assert accuracy(trained, TEST) >= 0.95
    changed = load_module(trained).bert.embeddings.word_embeddings.weight
    assert int((changed == 0).sum()) == 0


def test_a_scope_spares_no_matrix(source: Artifact, tmp_path: Path) -> None:
    brief = {"epochs": 0.5, "fraction": 0.5}
    shares = facts(train(source, tmp_path, **brief, scope="matrix"))["sparsity"]["by_matrix"].values()
    assert set(shares) == {0.5}
    shares = facts(train(source, tmp_path, **brief, scope="global"))["sparsity"]["by_matrix"].values()
    assert len(set(shares)) > 2


@pytest.mark.slow
def test_a_higher_penalty_takes_more(source: Artifact, tmp_path: Path) -> None:
    found = [
        facts(train(source, tmp_path, method="soft_movement", penalty=penalty, score_learning_rate=0.2))["sparsity"]
        for penalty in (1e-6, 400.0)
    ]
    low, high = (each["fraction"] for each in found)
    assert 0 < low < high < 1


@pytest.mark.slow
def test_the_teachers_answers_may_be_learned_instead_of_labels(source: Artifact, tmp_path: Path) -> None:
    """All labels are wrong, and the sparse student follows the teacher."""
    teacher = carry_out(tmp_path, source, [("finetune", QUICK)], DATA)
    wrong = job_data(with_labels(TRAIN, 1 - TRAIN.labels), TEST)
    settings = QUICK | {"fraction": 0.3}
    follows, misled = (
        carry_out(tmp_path, source, [("sparse_finetune", settings | {"alpha": alpha})], wrong, teacher)
        for alpha in (1.0, 0.0)
    )
    assert accuracy(follows, TEST) >= 0.9
    assert accuracy(misled, TEST) <= 0.3


def test_learning_from_a_teacher_needs_one(source: Artifact, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sparse_finetune with alpha needs a teacher"):
        train(source, tmp_path, fraction=0.5, alpha=0.5)


@pytest.mark.slow
def test_zeros_of_before_are_among_those_of_after(source: Artifact, tmp_path: Path) -> None:
    for method in ("magnitude", "movement"):
        settings = QUICK | {"epochs": 1.0, "method": method, "fraction": 0.6}
        chain = [("prune_weights", {"fraction": 0.4, "method": "random"}), ("sparse_finetune", settings)]
        after = carry_out(tmp_path, source, chain, DATA)
        before = carry_out(tmp_path, source, chain[:1], DATA)
        assert all((zeros(after)[label] | ~gone).all() for label, gone in zeros(before).items()), method
        assert facts(after)["sparsity"]["fraction"] == pytest.approx(0.6, abs=1e-3)


@pytest.mark.parametrize("method", [pytest.param("magnitude", marks=pytest.mark.slow), "movement"])
def test_a_resumed_training_is_the_one_that_never_stopped(method: str, source: Artifact, tmp_path: Path) -> None:
    """Stopped in the middle of the schedule: masks, scores and place in it come back with the checkpoint."""
    step = step_of("sparse_finetune", **QUICK | {"epochs": 1.0, "every": 3, "fraction": 0.5, "method": method})
    results = []
    for name, stop in (("straight", None), ("resumed", 7)):
        out, scratch = tmp_path / name, tmp_path / f"{name}-scratch"
        out.mkdir()
        scratch.mkdir()
        ctx = replace(context(DATA, scratch, lineage=(source,)), checkpoint_seconds=0 if stop else 60)
        if stop:
            with pytest.raises(KeyboardInterrupt):
                step.apply(source, out, replace(ctx, progress=stopping_at(stop)))
        results.append(step.apply(source, out, ctx))
    assert [each["resumed_from"] for each in results] == [None, 6]
    assert hash_folder(tmp_path / "resumed") == hash_folder(tmp_path / "straight")
    assert results[0]["sparsity"] == results[1]["sparsity"]
    assert results[0]["sparsity"]["zeros"] > 0


class Dot(nn.Module):
    """A model of one output, w . x."""

    def __init__(self, *weights: float) -> None:
        super().__init__()
        self.map = nn.Linear(len(weights), 1, bias=False)
        self.map.weight = nn.Parameter(torch.tensor([weights]))

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x)

    @property
    def matrices(self) -> list[Matrix]:
        return [Matrix(0, "map", "map.weight", self.map)]


def squared_error(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return (model(x=batch["x"]) - batch["y"]).square().mean()


def fit(model: Dot, loss: GradualLoss, target: list[float], steps: int) -> list[list[bool]]:
    """Masks after each step of learning `target` as weights."""
    x = torch.eye(len(target))
    batch = {"x": x, "y": x @ torch.tensor(target)[:, None]}
    optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=0.05)
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, batch).backward()
        optimizer.step()
        seen.append(loss.masks[0][0].tolist())
    loss.settle(model)
    return seen


def test_a_weight_that_grows_outlives_a_larger_one_that_shrinks() -> None:
    """0.5 is drawn to 2 and 1.0 to 0: when one of them must go, size takes the first and movement the second."""
    left = {}
    for name, kind in (("size", GradualLoss), ("movement", MovementLoss)):
        model = Dot(0.5, 1.0)
        fit(model, kind(squared_error, model.matrices, [None], Cubic(3, 3), 0.0, 0.5), [2.0, 0.0], steps=5)
        left[name] = (model.map.weight != 0)[0].tolist()
    assert left == {"size": [False, True], "movement": [True, False]}


def test_masks_follow_the_cubic_schedule_and_are_held_after_it() -> None:
    model = Dot(*[float(value) for value in range(1, 9)])
    loss = GradualLoss(squared_error, model.matrices, [None], Cubic(2, 10, every=4), 0.0, 0.75)
    seen = fit(model, loss, [8.0, 0, 0, 0, 0, 0, 0, 0], steps=40)
    gone = [mask.count(False) for mask in seen]
    assert gone[:2] == [0, 0]
    assert gone[6] == round(8 * 0.75 * 7 / 8)  # half of the schedule
    assert gone[3:6] == [gone[2]] * 3  # between two renewals
    assert gone[10:] == [6] * 30
    assert seen[10:] == [seen[10]] * 30
    assert int((model.map.weight == 0).sum()) == 6


def test_a_masked_weight_keeps_its_value_and_its_score_goes_on_learning() -> None:
    """The score of a masked weight gets weight * (what the masked product would have got)."""
    model = Dot(2.0, 1.0)
    loss = MovementLoss(squared_error, model.matrices, [None], Cubic(0, 0), 0.0, 0.5)
    with torch.no_grad():
        loss.stored[0].copy_(torch.tensor([[-1.0, 1.0]]))
    loss(model, {"x": torch.tensor([[3.0, 1.0]]), "y": torch.tensor([[0.0]])}).backward()
    assert loss.masks[0].tolist() == [[False, True]]
    error = 2 * 1.0  # d/d output of (1 - 0)^2
    torch.testing.assert_close(model.map.weight.grad, torch.tensor([[0.0, error * 1]]))
    torch.testing.assert_close(loss.stored[0].grad, torch.tensor([[2.0 * error * 3, 1.0 * error * 1]]))


def test_scores_have_a_learning_rate_of_their_own() -> None:
    """Under Adam a stored score times `rate` moves as a score would with a learning rate that much higher."""
    model = Dot(2.0, 1.0)
    loss = MovementLoss(squared_error, model.matrices, [None], Cubic(0, 0), 0.0, 0.5, rate=10.0)
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.01)
    loss(model, {"x": torch.tensor([[3.0, 1.0]]), "y": torch.tensor([[9.0]])}).backward()
    optimizer.step()
    torch.testing.assert_close(loss.scores[0].abs(), torch.full((1, 2), 0.1), atol=1e-5, rtol=0)


def test_the_soft_version_masks_below_the_threshold_and_draws_scores_down() -> None:
    model = Dot(1.0, 1.0, 1.0)
    loss = SoftMovementLoss(squared_error, model.matrices, [None], Cubic(0, 2), 0.0, 0.4, rate=2.0, strength=8.0)
    with torch.no_grad():
        loss.stored[0].copy_(torch.tensor([[-1.0, 0.0, 1.0]]))  # scores -2, 0, 2; sigmoids 0.12, 0.5, 0.88
    batch = {"x": torch.zeros(1, 3), "y": torch.zeros(1, 1)}
    values = [float(loss(model, batch).detach()) for _ in range(3)]
    assert values == pytest.approx([0.0, 8 * 7 / 8 * 0.5, 8 * 0.5])  # the mean sigmoid is a half
    assert loss.masks[0].tolist() == [[False, True, True]]
    loss(model, batch).backward()
    assert (loss.stored[0].grad > 0).all()
    sigmoids = torch.tensor([[-2.0, 0, 2]]).sigmoid()
    torch.testing.assert_close(loss.stored[0].grad, 8 * sigmoids * (1 - sigmoids) / 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "fraction: magnitude needs to know how many weights go"),
        ({"method": "soft_movement", "fraction": 0.5}, "the penalty decides how many weights go; leave fraction out"),
        ({"fraction": 0.5, "initial_fraction": 0.6}, r"initial_fraction 0\.6 must be below fraction 0\.5"),
        ({"fraction": 0.5, "begin": 0.8}, r"begin 0\.8 must be below end 0\.7"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step_of("sparse_finetune", **settings)
