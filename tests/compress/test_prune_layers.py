"""Which layers go, for each strategy of the paper; what is out of range is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_jobs import carry_out, planted_rows, step_of
from transformers import AutoModelForSequenceClassification

from assay.core.artifact import Artifact
from assay.core.errors import InputError
from assay.core.manifest import Manifest
from assay.core.model.load import load_module
from assay.core.model.predict import open_predictor
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
    with pytest.raises(InputError, match=f"strategy '{strategy}' can drop at most 6 of 12 layers"):
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
        ({"layers": [0, 4]}, r"prune_layers\.layers: \[4\] not among the layers present, \[0, 1, 2, 3\]"),
        ({"layers": [-1]}, r"prune_layers\.layers: \[-1\] not among"),
        ({"layers": [1, 1]}, r"\[1, 1\] name one twice"),
        ({"keep": 1, "strategy": "even"}, "can drop at most 2 of 4 layers"),
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
