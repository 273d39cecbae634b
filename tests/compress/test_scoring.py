"""Importance equals the closed form and finite differences; a useless head scores lowest and goes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_jobs import carry_out, context, job_data, planted_rows
from torch import Tensor, nn

from assay.core.artifact import Artifact, open_source
from assay.core.model.anatomy import FAMILIES
from assay.core.model.load import load_module, load_tokenizer, save_module
from assay.core.model.masks import mask_heads, mask_neurons
from assay.core.model.predict import open_predictor
from compress.losses.task import task_loss
from compress.pruning import score_units, scoring_batches, scoring_subject
from compress.scoring import keep_best, sensitivity, unit_norm

MakeArtifact = Callable[..., Artifact]
REGRESSION = "text-regression"


class Weighted(nn.Module):
    """output = sum of weight * input * mask, so that the derivative by each mask is known."""

    weight = torch.tensor([1.0, -2.0, 0.0])
    masks = torch.ones(3)

    def forward(self, inputs: Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=(self.weight * inputs * self.masks).sum(-1, keepdim=True))


@contextmanager
def set_masks(model: Weighted, *, masks: list[Tensor]) -> Iterator[None]:
    (model.masks,) = masks
    yield


def weighted_scores(inputs: Tensor, labels: Tensor, batch_size: int) -> Tensor:
    batches = [
        {"inputs": part, "labels": truth}
        for part, truth in zip(inputs.split(batch_size), labels.split(batch_size), strict=True)
    ]
    (scores,) = sensitivity(Weighted(), batches, [3], set_masks, REGRESSION)
    return scores


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_importance_is_the_mean_absolute_derivative_of_each_row(batch_size: int) -> None:
    inputs = torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 4.0], [2.0, 2.0, 2.0], [-1.0, 0.0, 1.0]])
    labels = torch.tensor([0.0, 1.0, 2.0, 3.0])
    parts = Weighted.weight * inputs
    errors = parts.sum(-1) - labels
    expected = (2 * errors[:, None] * parts).abs().mean(0)
    torch.testing.assert_close(weighted_scores(inputs, labels, batch_size), expected)
    assert expected[2] == 0


def test_rows_with_opposite_derivatives_do_not_cancel() -> None:
    inputs = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    labels = torch.tensor([0.0, 2.0])  # errors +1 and -1: the derivatives are +2 and -2
    assert weighted_scores(inputs, labels, batch_size=2).tolist() == [2.0, 0.0, 0.0]


@pytest.mark.parametrize("unit", ["heads", "neurons"])
def test_importance_equals_finite_differences(unit: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    artifact = tiny_artifact(layers=2, neurons=6)
    model, family = load_module(artifact).double(), FAMILIES["bert"]
    mask = partial(mask_heads if unit == "heads" else mask_neurons, family=family)
    size = 4 if unit == "heads" else 6
    rows = list(scoring_batches(artifact, context(job_data(), tmp_path), rows=3, batch_size=1))
    scores = sensitivity(model, rows, [size, size], mask, "text-classification")

    def slope(layer: int, unit: int, row: dict[str, Tensor]) -> float:
        losses = []
        for step in (1e-4, -1e-4):
            masks = torch.ones(2, size, dtype=torch.float64)
            masks[layer, unit] += step
            with mask(model, masks=masks), torch.no_grad():
                inputs = {name: value for name, value in row.items() if name != "labels"}
                losses.append(task_loss(model(**inputs).logits, row["labels"], "text-classification").item())
        return (losses[0] - losses[1]) / 2e-4

    for layer, number in [(0, 0), (0, 3), (1, 1)]:
        expected = sum(abs(slope(layer, number, row)) for row in rows) / len(rows)
        assert scores[layer][number].item() == pytest.approx(expected, rel=1e-3, abs=1e-7)


def test_importance_does_not_depend_on_the_batch(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    artifact = tiny_artifact(layers=2)
    model, mask = load_module(artifact), partial(mask_heads, family=FAMILIES["bert"])
    found = [
        sensitivity(
            model,
            scoring_batches(artifact, context(job_data(), tmp_path), 8, batch_size),
            [4, 4],
            mask,
            "text-classification",
        )
        for batch_size in (1, 8)
    ]
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-6)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.fixture
def with_useless_head(tiny_artifact: MakeArtifact) -> Artifact:
    """Head 2 of layer 1 of a two-layer BERT writes zeros."""
    artifact = tiny_artifact(layers=2)
    module = load_module(artifact)
    with torch.no_grad():
        module.get_submodule("bert.encoder.layer.1.attention.output.dense").weight[:, 16:24] = 0
    save_module(module, artifact.path, load_tokenizer(artifact))
    return open_source(artifact.path, "text-classification")


def test_a_useless_head_scores_nothing_and_goes_first(with_useless_head: Artifact, tmp_path: Path) -> None:
    module = load_module(with_useless_head)
    subject = scoring_subject("heads", module, with_useless_head, context(job_data(), tmp_path), rows=16)
    scores = score_units("gradient", subject)
    assert [int((layer == 0).sum()) for layer in scores] == [0, 1]
    assert scores[1][2] == 0
    pruned = carry_out(tmp_path, with_useless_head, [("prune_heads", {"fraction": 1 / 8, "rows": 16})])
    assert pruned.edits == [{"edit": "keep_heads", "heads": {"0": [0, 1, 2, 3], "1": [0, 1, 3]}}]
    texts = planted_rows(6).texts
    before, after = (open_predictor(model, 32).logits(texts) for model in (with_useless_head, pruned))
    assert abs(before - after).max() < 1e-5


def test_removing_a_useful_head_changes_the_logits(with_useless_head: Artifact, tmp_path: Path) -> None:
    pruned = carry_out(tmp_path, with_useless_head, [("prune_heads", {"remove": {1: [1]}})])
    texts = planted_rows(6).texts
    before, after = (open_predictor(model, 32).logits(texts) for model in (with_useless_head, pruned))
    assert abs(before - after).max() > 1e-3


def test_scoring_rows_are_a_seeded_sample_of_the_training_rows(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    artifact, data = tiny_artifact(layers=2), job_data()

    def drawn(rows: int) -> list[list[int]]:
        batches = scoring_batches(artifact, context(data, tmp_path), rows, batch_size=4)
        return [ids for batch in batches for ids in batch["input_ids"].tolist()]

    assert drawn(8) == drawn(8)
    assert len(drawn(8)) == 8
    assert len(drawn(1000)) == len(data.train)


def test_layers_are_scaled_to_unit_length() -> None:
    scaled = unit_norm([torch.tensor([3.0, 4.0]), torch.tensor([0.0, 0.0]), torch.tensor([300.0, 400.0])])
    assert [layer.tolist() for layer in scaled] == [pytest.approx([0.6, 0.8]), [0, 0], pytest.approx([0.6, 0.8])]


SCORES = [torch.tensor([0.1, 0.9, 0.5, 0.2]), torch.tensor([0.8, 0.7, 0.6, 0.95])]


def test_the_lowest_of_the_whole_model_go() -> None:
    assert keep_best(SCORES, 0.5) == [[1], [0, 1, 3]]
    assert keep_best(SCORES, 0.25) == [[1, 2], [0, 1, 2, 3]]


def test_the_same_share_of_every_layer_goes() -> None:
    assert keep_best(SCORES, 0.5, per_layer=True) == [[1, 2], [0, 3]]
    assert keep_best(SCORES, 0.25, per_layer=True) == [[1, 2, 3], [0, 1, 3]]


@pytest.mark.parametrize("per_layer", [False, True])
def test_no_layer_is_ever_emptied(per_layer: bool) -> None:
    assert keep_best(SCORES, 0.99, per_layer) == [[1], [3]]


def test_what_a_layer_cannot_give_is_taken_from_the_others() -> None:
    """Half of all is four units; three of the weak layer are allowed to go."""
    assert keep_best([SCORES[0] / 100, SCORES[1]], 0.5) == [[1], [0, 1, 3]]


@pytest.mark.parametrize(("fraction", "kept"), [(0.75, 8), (0.5, 16), (0.3, 16), (0.1, 20)])
def test_kept_units_are_rounded_up_to_a_multiple(fraction: float, kept: int) -> None:
    """20 units in a layer: 5 -> 8, 10 -> 16, 14 -> 16, and 18 -> 20, which is all there are."""
    found = keep_best([torch.arange(20.0)], fraction, per_layer=True, multiple_of=8)
    assert found == [list(range(20 - kept, 20))]
