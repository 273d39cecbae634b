"""Groups start from what was asked for, are pruned together, and stay one set of weights to the end of a chain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from by_family import case
from pydantic import ValidationError
from tiny_jobs import carry_out, step_of

from assay.core.artifact import GRAPH, WEIGHTS, Artifact
from assay.core.errors import SettingError
from assay.core.manifest import Manifest
from assay.core.measure.weights_count import count_graph, count_module
from assay.core.model.anatomy import FAMILIES
from assay.core.model.blocks import modules_of
from assay.core.model.edits import layout_of
from assay.core.model.load import load_module

MakeArtifact = Callable[..., Artifact]


def facts(artifact: Artifact) -> dict[str, Any]:
    return Manifest.read(artifact.path).facts


@pytest.mark.parametrize(("start", "shares"), [("first", (1, 0)), ("last", (0, 1)), ("mean", (0.5, 0.5))])
def test_a_group_starts_from_its_first_its_last_or_their_mean(
    start: str, shares: tuple[float, float], tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact("bert")
    made = load_module(carry_out(tmp_path, source, [("share_layers", {"groups": [[1, 3]], "start": start})]))
    before, after = (modules_of(each, FAMILIES["bert"]) for each in (load_module(source), made))
    for name, value in after[3].named_parameters():
        expected = shares[0] * before[1].get_parameter(name) + shares[1] * before[3].get_parameter(name)
        torch.testing.assert_close(value, expected)
    assert torch.equal(after[0].output.dense.weight, before[0].output.dense.weight)


@pytest.mark.parametrize(
    ("family", "every", "groups"),
    [("bert", 2, [[0, 1], [2, 3]]), ("bert", 3, [[0, 1, 2]]), ("bert", 9, [[0, 1, 2, 3]]), ("t5", 4, [[0, 1], [2, 3]])],
)
def test_every_so_many_layers_of_a_stack_share(
    family: str, every: int, groups: list[list[int]], tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family)
    made = carry_out(tmp_path, source, [("share_layers", {"every": every, "start": "mean"})])
    told = facts(made)
    assert told["groups"] == groups
    counts = [count_module(load_module(each)).parameters for each in (source, made)]
    assert [told["parameters_before"], told["parameters_after"]] == counts
    sizes = [(each.path / WEIGHTS).stat().st_size for each in (source, made)]
    assert sizes[0] - sizes[1] > 0.9 * 4 * (counts[0] - counts[1])


@pytest.mark.parametrize("step", ["prune_heads", "prune_ffn"])
def test_a_group_loses_the_same_parts(step: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    settings = {"fraction": 0.5, "rows": 8, "scope": "global"} | ({"multiple_of": 1} if step == "prune_ffn" else {})
    chain = [("share_layers", {"groups": [[0, 1, 2]]}), (step, settings)]
    made = carry_out(tmp_path, tiny_artifact("bert"), chain)
    layers = layout_of(made.config, made.edits).layers
    units = [layer.heads if step == "prune_heads" else layer.neurons for layer in layers]
    assert units[0] == units[1] == units[2] != units[3]
    of = 4 if step == "prune_heads" else 48
    assert len(units[0]) + len(units[3]) == of  # half of the units of two sets of weights


@pytest.mark.slow
def test_training_keeps_the_groups_and_the_graph_says_the_same(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    train = ("finetune", {"epochs": 0.5, "batch_size": 8})
    trained = carry_out(tmp_path, tiny_artifact("bert"), [("share_layers", {"every": 2}), train])
    first, second, third, _ = modules_of(load_module(trained), FAMILIES["bert"])
    assert first is second
    assert first is not third
    assert facts(carry_out(tmp_path, trained, [("export_onnx", {})]))["parity"]["max_abs"] < 1e-4


@pytest.mark.parametrize("family", [case("bert", slow=False), case("gpt2", slow=True), case("t5", slow=True)])
def test_a_graph_holds_shared_weights_once(family: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    made = carry_out(tmp_path, tiny_artifact(family), [("share_layers", {"every": 2})])
    graph = carry_out(tmp_path, made, [("export_onnx", {"tolerance": 1e-4})])
    held = facts(made)["parameters_after"]
    assert count_graph(graph.path / GRAPH).parameters == pytest.approx(held, rel=0.05)
    assert facts(made)["parameters_before"] > 1.2 * held


@pytest.mark.parametrize("settings", [{}, {"groups": [[0, 1]], "every": 2}, {"every": 1}])
def test_settings_that_say_nothing_or_too_much_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"give either groups or every|greater than or equal to 2"):
        step_of("share_layers", **settings)


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("bert", {"groups": [[0, 7]]}, r"share_layers\.groups: 7 is not among the layers present, 0-3"),
        (
            "bert",
            {"groups": [[0]]},
            r"share_layers\.groups: a group needs layers of at least two sets of weights; got 0",
        ),
        ("albert", {"every": 2}, r"share_layers\.every: a group needs .* two sets of weights; got 0, 1"),
        ("t5", {"groups": [[1, 2]]}, r"share_layers\.groups: layers 1 and 2 differ in their stack"),
    ],
)
def test_groups_that_do_not_fit_are_known_before_training(
    family: str, settings: dict[str, Any], message: str, tiny_artifact: MakeArtifact
) -> None:
    with pytest.raises(SettingError, match=message):
        step_of("share_layers", **settings).check(layout_of(tiny_artifact(family).config), None)


def test_one_layer_a_stack_has_none_to_share_with(tiny_artifact: MakeArtifact) -> None:
    with pytest.raises(SettingError, match=r"every: 2: no stack of this model has two layers"):
        step_of("share_layers", every=2).check(layout_of(tiny_artifact("bert", layers=1).config), None)
