"""Each score knows a unit that does nothing, and what stands beside it as a control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from by_family import case
from tiny_jobs import carry_out, context, job_data
from torch import Tensor, nn

from assay.core.artifact import Artifact
from assay.core.errors import AssayError
from assay.core.model.anatomy import FAMILIES
from assay.core.model.load import load_module
from assay.core.model.masks import mask_heads
from compress import pruning
from compress.linearised import linearised
from compress.losses.task import task_loss
from compress.pruning import choose_units, score_units, scoring_subject
from compress.scores.relevance import head_relevance
from compress.scores.subject import MASKS, Subject

MakeArtifact = Callable[..., Artifact]
HEAD_SCORES = (
    "gradient", "fisher", "ablation", "relevance", "attention_distillation", "magnitude", "confidence", "random",
)  # fmt: skip


def subject_of(artifact: Artifact, folder: Path, unit: Any = "heads") -> Subject:
    return scoring_subject(unit, load_module(artifact), artifact, context(job_data(), folder), rows=16)


@pytest.fixture
def heads(tiny_artifact: MakeArtifact, tmp_path: Path) -> Subject:
    """A two-layer BERT whose head 2 of layer 1 writes zeros."""
    subject = subject_of(tiny_artifact(layers=2), tmp_path)
    with torch.no_grad():
        subject.module.get_submodule("bert.encoder.layer.1.attention.output.dense").weight[:, 16:24] = 0
    return subject


@pytest.mark.parametrize("name", ["gradient", "fisher", "relevance", "attention_distillation", "magnitude"])
def test_a_head_that_writes_nothing_scores_nothing_and_no_other_does(name: str, heads: Subject) -> None:
    scores = score_units(name, heads)
    assert [layer.eq(0).tolist() for layer in scores] == [[False] * 4, [False, False, True, False]]


def test_ablation_is_the_loss_without_the_head_also_where_others_are_off_already(heads: Subject) -> None:
    off = [torch.tensor([1.0, 1, 0, 1]), torch.ones(4)]
    with mask_heads(heads.module, heads.family, off):
        scores = score_units("ablation", heads)
    assert scores[0][2].item() == pytest.approx(0, abs=1e-6)
    assert scores[1][2].item() == pytest.approx(0, abs=1e-6)
    with_and_without = [off, [torch.tensor([1.0, 0, 0, 1]), torch.ones(4)]]
    losses = []
    for masks in with_and_without:
        with mask_heads(heads.module, heads.family, masks), torch.no_grad():
            (batch,) = heads.batches
            losses.append(task_loss(heads.module(**heads.inputs()[0]).logits, batch["labels"], heads.task).item())
    assert abs(losses[1] - losses[0]) > 1e-4
    assert scores[0][1].item() == pytest.approx(losses[1] - losses[0], abs=1e-5)


@pytest.mark.parametrize("unit", ["heads", "neurons"])
def test_fisher_is_half_the_mean_square_of_each_rows_derivative(
    unit: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    """One row at a time, with one mask for all rows; and layers keep their scale."""
    subject = subject_of(tiny_artifact(layers=2, neurons=6), tmp_path, unit)
    squares = [torch.zeros(size) for size in subject.sizes]
    for batch, inputs in zip(subject.batches, subject.inputs(), strict=True):
        for row, label in enumerate(batch["labels"]):
            masks = [torch.ones(size, requires_grad=True) for size in subject.sizes]
            with MASKS[subject.unit](subject.module, subject.family, masks):
                logits = subject.module(**{name: value[row : row + 1] for name, value in inputs.items()}).logits
            slopes = torch.autograd.grad(task_loss(logits, label[None], subject.task), masks)
            squares = [total + slope**2 for total, slope in zip(squares, slopes, strict=True)]
    expected = [total / 16 / 2 for total in squares]
    torch.testing.assert_close(score_units("fisher", subject), expected, atol=1e-6, rtol=1e-3)
    assert abs(expected[0].norm() - expected[1].norm()) > 1e-4


def test_magnitude_is_the_norm_of_the_output_slice(heads: Subject) -> None:
    weight = heads.module.get_submodule("bert.encoder.layer.0.attention.output.dense").weight.detach()
    assert score_units("magnitude", heads)[0][3].item() == pytest.approx(weight[:, 24:].norm().item())


@pytest.mark.parametrize("name", HEAD_SCORES)
def test_a_score_has_a_figure_for_each_head_that_is_left(
    name: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    cut = carry_out(tmp_path, tiny_artifact("mpnet", layers=3), [("prune_heads", {"remove": {0: [1], 2: [0, 2, 3]}})])
    scores = score_units(name, subject_of(cut, tmp_path))
    assert [len(layer) for layer in scores] == [3, 4, 1]
    assert name == "ablation" or all((layer >= 0).all() for layer in scores)


def test_relevance_is_found_with_the_only_head_that_matters_and_adds_up_over_tokens(heads: Subject) -> None:
    """What layer 1 hands on from head 1 is a hundred times what it hands on from the others."""
    (inputs,) = heads.inputs()
    signed = head_relevance(heads, inputs)
    masks = [torch.ones(16, 4, requires_grad=True) for _ in range(2)]
    with mask_heads(heads.module, heads.family, masks), linearised(heads.module, heads.family):
        best = heads.module(**inputs).logits.amax(-1).sum()
    by_row = torch.autograd.grad(best, masks)  # a logit is linear in each head, so this is what it gives to the logit
    torch.testing.assert_close([layer.sum(1) for layer in signed], list(by_row), atol=1e-5, rtol=1e-4)
    assert all(layer.sum().item() == pytest.approx(1) for layer in score_units("relevance", heads))
    with torch.no_grad():
        weight = heads.module.get_submodule("bert.encoder.layer.1.attention.output.dense").weight
        weight[:, [*range(8), *range(16, 32)]] /= 100
    planted = score_units("relevance", heads)
    assert planted[1].argmax() == 1
    assert planted[1][1] > 0.95 > planted[0].max()


def test_attention_distillation_is_the_relative_squared_error_of_the_output_without_the_head(heads: Subject) -> None:
    """On real tokens; against passes with one head masked. A head twice as loud errs four times as much."""
    (inputs,) = heads.inputs()
    real, output = inputs["attention_mask"].bool(), heads.module.get_submodule("bert.encoder.layer.1.attention.output")
    seen: list[Tensor] = []
    hook = output.dense.register_forward_hook(lambda part, args, states: seen.append(states[real]))
    scores = score_units("attention_distillation", heads)[1]
    for head in range(4):
        mask = (torch.arange(4) != head).float()
        with mask_heads(heads.module, heads.family, [torch.ones(4), mask]), torch.no_grad():
            heads.module(**inputs)
    hook.remove()
    whole, *without = seen
    expected = [(whole - each).square().sum() / whole.square().sum() for each in without]
    torch.testing.assert_close(scores, torch.stack(expected).detach(), atol=1e-6, rtol=1e-3)
    assert not real.all()
    with torch.no_grad():
        output.dense.weight[:, :8] *= 2
    louder = score_units("attention_distillation", heads)[1]
    assert (louder[0] / louder[1]).item() == pytest.approx(4 * (scores[0] / scores[1]).item(), rel=1e-3)
    assert louder[2] == 0


@pytest.mark.parametrize("name", ["relevance", "attention_distillation"])
def test_heads_that_are_off_already_score_nothing(name: str, heads: Subject) -> None:
    with mask_heads(heads.module, heads.family, [torch.tensor([1.0, 0, 1, 1]), torch.ones(4)]):
        scores = score_units(name, heads)
    assert scores[0].eq(0).tolist() == [False, True, False, False]


@pytest.mark.parametrize("name", ["relevance", "attention_distillation"])
@pytest.mark.parametrize(("family", "unit"), [case("albert", "heads", slow=True), case("t5", "cross_heads", slow=True)])
def test_scores_of_other_families_have_a_figure_for_each_head(
    name: str, family: str, unit: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    subject = subject_of(tiny_artifact(family, layers=4), tmp_path, unit)
    scores = score_units(name, subject)
    assert [len(layer) for layer in scores] == subject.sizes
    assert all((layer > 0).all() for layer in scores)
    assert sum(map(len, scores)) > 0


class Attentive(nn.Module):
    """Gives the attention it was made with."""

    def __init__(self, *attentions: Tensor) -> None:
        super().__init__()
        self.attentions = attentions

    def forward(self, **inputs: Any) -> SimpleNamespace:
        return SimpleNamespace(attentions=self.attentions)


def confidence(weights: Tensor, ids: Tensor, mask: Tensor) -> list[float]:
    batch = {"input_ids": ids, "attention_mask": mask, "labels": torch.zeros(len(ids), dtype=torch.int64)}
    family: Any = FAMILIES["bert"]
    model: Any = Attentive(weights)
    (found,) = score_units(
        "confidence", Subject(model, family, "heads", [weights.shape[1]], [batch], "text-classification", [102], 0)
    )
    return found.tolist()


@pytest.mark.parametrize("padding", [0, 1, 7])
@pytest.mark.parametrize("side", ["right", "left"])
def test_uniform_attention_over_n_tokens_has_confidence_one_nth_whatever_the_padding(padding: int, side: str) -> None:
    tokens = 5
    mask = torch.tensor([[1] * tokens + [0] * padding])
    mask = mask if side == "right" else mask.flip(1)
    weights = (mask / tokens).expand(1, 2, tokens + padding, -1)
    assert confidence(weights, torch.full_like(mask, 7), mask) == pytest.approx([1 / tokens] * 2)


def test_a_head_that_looks_at_one_token_is_confident_but_not_if_that_is_the_separator() -> None:
    ids, mask = torch.tensor([[101, 7, 8, 102]]), torch.ones(1, 4, dtype=torch.int64)
    first, separator = torch.zeros(4, 4), torch.zeros(4, 4)
    first[:, 0], separator[:, 3] = 1, 1
    assert confidence(torch.stack([first, separator])[None], ids, mask) == [1.0, 0.0]


def test_rows_count_by_their_tokens() -> None:
    """Two real tokens at 1 and four at 1/4."""
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    sure = torch.tensor([[1.0, 0, 0, 0]]).expand(4, -1)
    weights = torch.stack([sure, torch.full((4, 4), 0.25)])[:, None]
    assert confidence(weights, torch.full_like(mask, 7), mask) == pytest.approx([(2 * 1 + 4 * 0.25) / 6])


def test_confidence_needs_attention_weights() -> None:
    model: Any = Attentive()
    batch = {"input_ids": torch.ones(1, 2), "attention_mask": torch.ones(1, 2), "labels": torch.zeros(1)}
    family: Any = FAMILIES["bert"]
    with pytest.raises(AssayError, match="no attention weights; load it with attn_implementation='eager'"):
        score_units("confidence", Subject(model, family, "heads", [4], [batch], "text-classification", [], 0))


def test_random_scores_follow_the_seed(heads: Subject) -> None:
    same, again, other = (score_units("random", replace(heads, seed=seed)) for seed in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(same, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(same, other, strict=True))


def test_activation_is_the_mean_size_over_real_tokens(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    artifact = tiny_artifact(layers=2, neurons=6)
    subject = subject_of(artifact, tmp_path, "neurons")
    with torch.no_grad():
        inner = subject.module.get_submodule("bert.encoder.layer.1.intermediate.dense")
        inner.weight[4], inner.bias[4] = 0, -100.0  # gelu(-100) is 0
        inner.weight[1], inner.bias[1] = 0, 3.0
    scores = score_units("activation", subject)
    assert scores[1].argmin() == 4
    assert scores[1][4] == 0
    assert scores[1][1].item() == pytest.approx(nn.functional.gelu(torch.tensor(3.0)).item())
    (row,) = (batch for batch in subject.batches[:1])
    longer = {name: nn.functional.pad(value, (0, 3)) if value.dim() == 2 else value for name, value in row.items()}
    padded = score_units("activation", replace(subject, batches=[longer]))
    plain = score_units("activation", replace(subject, batches=[row]))
    torch.testing.assert_close(padded, plain, atol=1e-6, rtol=1e-5)


def test_units_go_in_equal_parts_and_are_scored_anew_with_those_gone_masked(
    heads: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = [[[1.0, 2, 3, 4], [5.0, 6, 7, 8]], [[9.0, 9, 1, 9], [9.0, 9, 2, 9]]]
    seen = []

    def score(name: str, subject: Subject) -> list[Tensor]:
        with torch.no_grad():
            seen.append(subject.module(**subject.inputs()[0]).logits)
        return [torch.tensor(layer) for layer in rounds[len(seen) - 1]]

    monkeypatch.setattr(pruning, "score_units", score)
    kept, scores = choose_units("any", heads, 0.5, per_layer=False, iterations=2)
    assert kept == [[3], [0, 1, 3]]
    assert [layer.tolist() for layer in scores] == [[1, 2, 1, 9], [9, 9, 2, 9]]
    assert (seen[0] - seen[1]).abs().max() > 1e-3


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("unit", ["heads", "neurons"])
def test_iterations_end_at_the_share_that_was_asked_for(
    unit: str, per_layer: bool, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    subject = subject_of(tiny_artifact(layers=2, neurons=24), tmp_path, unit)
    multiple_of = 4 if unit == "neurons" else 1
    found = [choose_units("gradient", subject, 0.5, per_layer, n, multiple_of)[0] for n in (1, 3)]
    assert all(len(units) % multiple_of == 0 for kept in found for units in kept)
    if multiple_of == 1 or per_layer:
        assert [sum(map(len, kept)) for kept in found] == [sum(subject.sizes) // 2] * 2
