"""Which layers go, for each strategy of the paper; what is out of range is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_jobs import carry_out, job_data, planted_rows, step_of
from transformers import AutoModelForSequenceClassification

from assay.core.artifact import Artifact, open_source
from assay.core.errors import InputError
from assay.core.manifest import Manifest
from assay.core.model.edits import layout_of
from assay.core.model.encoder import Encoder
from assay.core.model.load import load_module, load_tokenizer, save_module
from assay.core.model.predict import TorchPredictor, open_predictor
from compress import layer_scores
from compress.steps.prune_layers import dropped

MakeArtifact = Callable[..., Artifact]


@pytest.mark.parametrize(
    ("strategy", "count", "gone"),
    [
        ("top", 4, {9, 10, 11, 12}),
        ("top", 6, {7, 8, 9, 10, 11, 12}),
        ("bottom", 4, {1, 2, 3, 4}),
        ("symmetric", 4, {5, 6, 7, 8}),
        ("symmetric", 6, {4, 5, 6, 7, 8, 9}),
        ("odd", 4, {5, 7, 9, 11}),
        ("odd", 6, {1, 3, 5, 7, 9, 11}),
        ("even", 4, {6, 8, 10, 12}),
        ("even", 6, {2, 4, 6, 8, 10, 12}),
    ],
)
def test_strategies_drop_the_layers_of_the_paper(strategy: str, count: int, gone: set[int]) -> None:
    """The paper numbers the 12 layers of BERT from 1."""
    assert {position + 1 for position in dropped(strategy, 12, count)} == gone


@pytest.mark.parametrize("strategy", ["top", "bottom", "symmetric", "odd", "even"])
def test_a_strategy_drops_as_many_as_asked_of_any_depth(strategy: str) -> None:
    for depth in range(1, 8):
        for count in range(depth // 2 + 1):
            positions = dropped(strategy, depth, count)
            assert len(positions) == count
            assert positions <= set(range(depth))


@pytest.mark.parametrize("strategy", ["odd", "even"])
def test_alternate_strategies_drop_at_most_half(strategy: str) -> None:
    with pytest.raises(InputError, match=f"strategy: '{strategy}' can drop at most 6 of 12 layers"):
        dropped(strategy, 12, 7)


def test_layers_that_stay_are_untouched_and_keep_their_numbers(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=4)
    once = carry_out(tmp_path, source, [("prune_layers", {"layers": [0, 2, 3]})])
    again = carry_out(tmp_path, source, [("prune_layers", {"layers": [0, 2, 3]}), ("prune_layers", {"layers": [3, 0]})])
    assert Manifest.read(once.path).facts == {"kept": [0, 2, 3], "removed": [1]}
    assert Manifest.read(again.path).facts == {"kept": [0, 3], "removed": [2]}
    before, after = (load_module(model).bert.encoder.layer for model in (source, again))
    for position, layer in enumerate([0, 3]):
        torch.testing.assert_close(after[position].state_dict(), before[layer].state_dict(), atol=0, rtol=0)


def test_a_shallower_model_opens_with_plain_transformers(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    pruned = carry_out(tmp_path, tiny_artifact(layers=4), [("prune_layers", {"keep": 2, "strategy": "symmetric"})])
    plain = AutoModelForSequenceClassification.from_pretrained(pruned.path)
    torch.testing.assert_close(plain.state_dict(), load_module(pruned).state_dict(), atol=0, rtol=0)
    assert plain.config.num_hidden_layers == 2
    assert open_predictor(pruned, 32).logits(planted_rows(3).texts).shape == (3, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": 5}, r"prune_layers\.keep: 5 is more than the 4 layers present"),
        ({"layers": [0, 4]}, r"prune_layers\.layers: 4 is not among the layers present, 0-3$"),
        ({"layers": [-1]}, r"prune_layers\.layers: -1 is not among"),
        ({"layers": [1, 1]}, r"\[1, 1\] name one twice"),
        ({"keep": 1, "strategy": "even"}, r"prune_layers\.strategy: 'even' can drop at most 2 of 4 layers"),
    ],
)
def test_layers_that_are_not_there_are_refused(
    settings: dict[str, object], message: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        carry_out(tmp_path, tiny_artifact(layers=4), [("prune_layers", settings)])


@pytest.mark.parametrize("settings", [{}, {"keep": 1, "layers": [0]}])
def test_one_way_to_choose(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"give either keep \(with strategy\) or layers"):
        step_of("prune_layers", **settings)


@pytest.fixture
def with_idle_layer(tiny_artifact: MakeArtifact) -> Artifact:
    """Layer 2 of a four-layer BERT hands on what it is given: it writes zeros, and what it normalises is normal."""
    artifact = tiny_artifact(layers=4)
    module = load_module(artifact)
    below, idle = module.bert.encoder.layer[1], module.bert.encoder.layer[2]
    with torch.no_grad():
        for dense in (idle.attention.output.dense, idle.output.dense):
            dense.weight[:], dense.bias[:] = 0, 0
        for norm in (below.output.LayerNorm, idle.attention.output.LayerNorm, idle.output.LayerNorm):
            norm.weight[:], norm.bias[:] = 1, 0
    save_module(module, artifact.path, load_tokenizer(artifact))
    return open_source(artifact.path, "text-classification")


@pytest.mark.parametrize("strategy", ["contribution", "block_influence"])
def test_a_layer_that_changes_nothing_goes_first(strategy: str, with_idle_layer: Artifact, tmp_path: Path) -> None:
    pruned, control = (
        carry_out(tmp_path, with_idle_layer, [("prune_layers", {"keep": 3, "strategy": name})])
        for name in (strategy, "top")
    )
    facts = Manifest.read(pruned.path).facts
    assert facts["removed"] == [2]
    assert facts["layer_scores"]["2"] == pytest.approx(0, abs=1e-5)
    assert min(facts["layer_scores"][layer] for layer in "013") > 0.01
    texts = planted_rows(6).texts
    before, same, other = (open_predictor(model, 32).logits(texts) for model in (with_idle_layer, pruned, control))
    assert abs(before - same).max() < 1e-4
    assert abs(before - other).max() > 1e-3


def test_layer_scores_are_one_minus_the_cosine_of_the_states(tiny_artifact: MakeArtifact) -> None:
    artifact = tiny_artifact("distilbert", layers=2)
    texts = planted_rows(5).texts
    module, encoder = load_module(artifact), Encoder(load_tokenizer(artifact), 32)
    batches = [{k: torch.from_numpy(v) for k, v in inputs.items()} for _, inputs in encoder.batches(texts, 2)]
    first: list[list[float]] = [[], []]
    every: list[list[float]] = [[], []]
    for states in TorchPredictor(artifact, 32).states(texts, batch_size=1):
        for layer, (before, after) in enumerate(pairwise(states.hidden)):
            turned = 1 - torch.cosine_similarity(before[0], after[0], dim=-1)
            first[layer].append(turned[0].item())
            every[layer] += turned.tolist()
    assert layer_scores.contribution(module, batches) == pytest.approx([sum(v) / len(v) for v in first], abs=1e-5)
    assert layer_scores.block_influence(module, batches) == pytest.approx([sum(v) / len(v) for v in every], abs=1e-5)


def test_greedy_drops_the_layer_without_which_the_validation_loss_is_lowest(
    tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source, data = tiny_artifact("mpnet", layers=4), job_data()
    unseen: Any = replace(data, test=None)  # test rows are not there to be looked at

    def loss(*kept: int) -> float:
        model = carry_out(tmp_path, source, [("prune_layers", {"layers": list(kept)})])
        logits = torch.from_numpy(open_predictor(model, 32).logits(data.validation.texts))
        return torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.validation.labels)).item()

    one = {layer: loss(*({0, 1, 2, 3} - {layer})) for layer in range(4)}
    first = min(one, key=one.__getitem__)
    two = {layer: loss(*({0, 1, 2, 3} - {layer, first})) for layer in {0, 1, 2, 3} - {first}}
    second = min(two, key=two.__getitem__)
    found = carry_out(tmp_path, source, [("prune_layers", {"keep": 2, "strategy": "greedy"})], unseen)
    facts = Manifest.read(found.path).facts
    assert facts["removed"] == sorted([first, second])
    expected = {str(layer): value for layer, value in ({first: one[first]} | two).items()}
    assert facts["layer_scores"] == pytest.approx(expected, abs=1e-5)


def test_greedy_looks_at_training_rows_where_none_are_held_back(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source, data = tiny_artifact(layers=3), job_data()
    settings = [("prune_layers", {"keep": 2, "strategy": "greedy", "rows": 1000})]
    bare = replace(data, validation=data.validation.take([]))
    found = [
        Manifest.read(carry_out(tmp_path / name, source, settings, rows).path).facts
        for name, rows in (("bare", bare), ("train", replace(data, validation=data.train)))
    ]
    assert found[0]["layer_scores"] == pytest.approx(found[1]["layer_scores"], abs=1e-6)


def test_what_only_rows_can_tell_is_not_checked_but_the_count_is(tiny_artifact: MakeArtifact) -> None:
    layout = layout_of(tiny_artifact(layers=4).config)
    assert step_of("prune_layers", keep=2, strategy="greedy").check(layout, None) is None
    with pytest.raises(InputError, match="5 is more than the 4 layers present"):
        step_of("prune_layers", keep=5, strategy="greedy").check(layout, None)
