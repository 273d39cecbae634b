"""Heads go physically, unevenly, and under their original numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_jobs import carry_out, step_of

from assay.core.artifact import WEIGHTS, Artifact
from assay.core.errors import InputError
from assay.core.manifest import Manifest
from assay.core.model.load import load_module

MakeArtifact = Callable[..., Artifact]
UNEVEN = {0: [0], 2: [1, 2, 3]}


def facts(artifact: Artifact) -> dict[str, Any]:
    return Manifest.read(artifact.path).facts


def query_rows(artifact: Artifact, layer: int) -> torch.Tensor:
    """Query weights of a layer, [heads, head_dim, width]."""
    return load_module(artifact).bert.encoder.layer[layer].attention.self.query.weight.reshape(-1, 8, 32)


def test_named_heads_go(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=4)
    pruned = carry_out(tmp_path, source, [("prune_heads", {"remove": UNEVEN})])
    assert facts(pruned)["removed"] == {"0": [0], "1": [], "2": [1, 2, 3], "3": []}
    assert facts(pruned)["kept"] == {"0": [1, 2, 3], "1": [0, 1, 2, 3], "2": [0], "3": [0, 1, 2, 3]}
    assert facts(pruned)["scores"] == {}
    torch.testing.assert_close(query_rows(pruned, 2), query_rows(source, 2)[[0]], atol=0, rtol=0)
    torch.testing.assert_close(query_rows(pruned, 0), query_rows(source, 0)[1:], atol=0, rtol=0)


def test_pruning_again_names_original_heads(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=3)
    chain = [("prune_heads", {"remove": UNEVEN}), ("prune_heads", {"remove": {0: [2], 1: [3]}})]
    again = carry_out(tmp_path, source, chain)
    assert facts(again)["present"] == {"0": [1, 2, 3], "1": [0, 1, 2, 3], "2": [0]}
    assert facts(again)["kept"] == {"0": [1, 3], "1": [0, 1, 2], "2": [0]}
    torch.testing.assert_close(query_rows(again, 0), query_rows(source, 0)[[1, 3]], atol=0, rtol=0)
    scored = carry_out(tmp_path, source, [*chain, ("prune_heads", {"fraction": 1 / 6, "rows": 4})])
    assert {layer: len(values) for layer, values in facts(scored)["scores"].items()} == {"0": 2, "1": 3, "2": 1}
    assert sum(map(len, facts(scored)["removed"].values())) == 1


def test_heads_keep_their_layer_numbers_after_layers_went(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=3)
    chain = [("prune_layers", {"layers": [0, 2]}), ("prune_heads", {"remove": {2: [1]}})]
    pruned = carry_out(tmp_path, source, chain)
    assert facts(pruned)["kept"] == {"0": [0, 1, 2, 3], "2": [0, 2, 3]}
    torch.testing.assert_close(query_rows(pruned, 1), query_rows(source, 2)[[0, 2, 3]], atol=0, rtol=0)


@pytest.mark.parametrize(("scope", "by_layer"), [("layer", [2, 2]), ("global", None)])
def test_a_fraction_goes_lowest_scores_first(
    scope: str, by_layer: list[int] | None, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    settings = {"fraction": 0.5, "scope": scope, "rows": 8}
    found = facts(carry_out(tmp_path, tiny_artifact(layers=2), [("prune_heads", settings)]))
    removed = [len(heads) for heads in found["removed"].values()]
    assert sum(removed) == 4
    assert by_layer in (None, removed)
    pools = [list(found["scores"])] if scope == "global" else [[layer] for layer in found["scores"]]
    for pool in pools:
        score = {(layer, head): value for layer in pool for head, value in enumerate(found["scores"][layer])}
        gone = [score[layer, head] for layer in pool for head in found["removed"][layer]]
        kept = [score[layer, head] for layer in pool for head in found["kept"][layer]]
        assert max(gone) < min(kept)


def test_pruned_heads_make_the_file_smaller(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=4)
    pruned = carry_out(tmp_path, source, [("prune_heads", {"remove": UNEVEN})])
    heads, parameters_a_head = 4, 4 * 8 * 32 + 3 * 8  # q, k, v, o of 8 channels by width 32; biases of q, k, v
    before, after = ((model.path / WEIGHTS).stat().st_size for model in (source, pruned))
    assert before - after == pytest.approx(
        heads * parameters_a_head * 4, abs=256
    )  # the header's sizes and padding vary


@pytest.mark.parametrize(
    ("remove", "message"),
    [
        ({0: [4], 1: [0]}, r"prune_heads\.remove: 4 is not among the heads of layer 0, 0-3$"),
        ({1: [0, 7, 9]}, r"prune_heads\.remove: 7, 9 are not among the heads of layer 1, 0-3$"),
        ({7: [0]}, r"prune_heads\.remove: 7 is not among the layers present, 0-1$"),
        ({1: [-1]}, "-1 is not among the heads of layer 1"),
        ({1: [0, 1, 2, 3]}, "layer 1 would lose its last head"),
    ],
)
def test_heads_that_are_not_there_or_the_last_are_refused(
    remove: dict[int, list[int]], message: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        carry_out(tmp_path, tiny_artifact(layers=2), [("prune_heads", {"remove": remove})])


@pytest.mark.parametrize("settings", [{}, {"fraction": 0.5, "remove": {0: [0]}}])
def test_one_way_to_choose(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give either fraction or remove"):
        step_of("prune_heads", **settings)


def test_named_heads_of_a_deep_model_fit_the_stand_in(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    step = step_of("prune_heads", remove={9: [0], 11: [1, 2]}).tiny()
    settings = step.model_dump(exclude_defaults=True)
    pruned = carry_out(tmp_path, tiny_artifact(layers=2), [("prune_heads", settings), ("prune_heads", settings)])
    assert sum(map(len, facts(pruned)["removed"].values())) > 0


@pytest.mark.parametrize("score", ["gradient", "magnitude", "confidence", "random"])
def test_the_lowest_go_by_each_score(score: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    settings = {"fraction": 0.5, "score": score, "scope": "layer"}
    found = facts(carry_out(tmp_path, tiny_artifact(layers=2), [("prune_heads", settings)]))
    for layer, scores in found["scores"].items():
        assert len(found["removed"][layer]) == 2
        assert max(scores[head] for head in found["removed"][layer]) < min(
            scores[head] for head in found["kept"][layer]
        )


def test_heads_removed_in_parts_are_as_many_and_load_as_one_edit(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=3)
    settings = {"fraction": 0.5, "iterations": 3, "rows": 8}
    pruned = carry_out(tmp_path, source, [("prune_heads", settings)])
    assert sum(map(len, facts(pruned)["removed"].values())) == 6
    named = carry_out(
        tmp_path, source, [("prune_heads", {"remove": {int(k): v for k, v in facts(pruned)["removed"].items()}})]
    )
    assert pruned.edits == named.edits
    torch.testing.assert_close(load_module(pruned).state_dict(), load_module(named).state_dict(), atol=0, rtol=0)


@pytest.mark.parametrize("score", ["magnitude", "random"])
def test_scores_that_do_not_change_are_not_asked_again(score: str) -> None:
    with pytest.raises(ValueError, match=f"iterations 3: {score} scores do not change when heads go; use 1"):
        step_of("prune_heads", fraction=0.5, score=score, iterations=3)
