"""Hard concrete gates have the distribution of the paper, are drawn to a target, and rounded are as good as cuts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_jobs import context, job_data
from torch import Tensor

from assay.core.artifact import Artifact
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import apply_edits, layout_of
from assay.core.model.load import load_module
from compress.gate_choice import Shape, choose, share_gone
from compress.gates import Gates
from compress.hard_concrete import drawn, gate, open_probability, settled
from compress.losses.gated import GatedLoss, Lagrangian
from compress.pruning import scoring_batches
from compress.steps.l0_prune import edits_of, shape_of

MakeArtifact = Callable[..., Artifact]
NO_NOISE = torch.tensor(0.5)
CLOSES_AT = -math.log(11)  # sigmoid is 1/12 there, which the stretch takes to 0


@pytest.mark.parametrize(("log_alpha", "chance"), [(0.0, 0.831822), (-1.598596, 0.5), (3.0, 0.990034)])
def test_the_chance_of_an_open_gate_is_that_of_the_formula(log_alpha: float, chance: float) -> None:
    assert open_probability(torch.tensor(log_alpha)).item() == pytest.approx(chance, abs=1e-5)


@pytest.mark.parametrize("log_alpha", [-2.0, 0.0, 1.0])
def test_gates_are_drawn_as_often_open_and_fully_open_as_the_formula_says(log_alpha: float) -> None:
    torch.manual_seed(0)
    gates = drawn(torch.full((100_000,), log_alpha))
    assert ((gates >= 0) & (gates <= 1)).all()
    chance = open_probability(torch.tensor(log_alpha)).item()
    assert (gates > 0).float().mean().item() == pytest.approx(chance, abs=0.005)
    mirrored = 1 - open_probability(torch.tensor(-log_alpha)).item()  # P(gate = 1), by symmetry
    assert (gates == 1).float().mean().item() == pytest.approx(mirrored, abs=0.005)


def test_a_gate_without_noise_closes_where_the_stretch_ends() -> None:
    assert settled(torch.tensor([0.0, 2.0])).tolist() == pytest.approx([0.5, 1.2 / (1 + math.exp(-2)) - 0.1])
    assert settled(torch.tensor([CLOSES_AT - 0.01, CLOSES_AT + 0.01])).gt(0).tolist() == [False, True]
    assert gate(torch.zeros(()), NO_NOISE).item() == 0.5
    assert gate(torch.tensor(9.0), NO_NOISE).item() == 1


def shape(heads: list[int], neurons: list[int], stacks: list[int] | None = None) -> Shape:
    return Shape({"heads": heads, "neurons": neurons}, {"heads": 10, "neurons": 1}, stacks or [0] * len(heads))


def test_expected_sparsity_is_one_less_the_expected_share_of_weights() -> None:
    gates = Gates(shape([2, 2], [4, 4]), ["heads", "neurons"])
    with torch.no_grad():
        gates.stored["heads"][0].fill_(-1.598596)  # open half of the time
        for each in (gates.stored["heads"][1], *gates.stored["neurons"]):
            each.fill_(20.0)
    assert gates.expected_sparsity().item() == pytest.approx(10 / 48, abs=1e-5)


def test_a_layers_gate_counts_for_all_that_is_in_it_gated_or_not() -> None:
    gates = Gates(shape([2, 2], [4, 12]), ["layers"])
    with torch.no_grad():
        gates.stored["layers"][0].fill_(20.0)
        gates.stored["layers"][1].fill_(-1.598596)
    assert gates.expected_sparsity().item() == pytest.approx(16 / 56, abs=1e-5)


@pytest.mark.parametrize(("rate", "reached"), [(0.0, 0.027), (1.0, 0.5)])
def test_the_lagrangian_draws_gates_to_the_target_against_a_loss(rate: float, reached: float) -> None:
    """Each gate is worth something to the loss; without multipliers nothing draws them down."""
    torch.manual_seed(0)
    gates, lagrangian = Gates(shape([8], [0]), ["heads"]), Lagrangian(rate)
    optimizer = torch.optim.Adam([*gates.parameters(), *lagrangian.parameters()], lr=0.1)
    worth = torch.tensor([0.01] * 4 + [0.2] * 4)
    for _ in range(300):
        optimizer.zero_grad()
        loss = -(worth * gates.masks()["heads"][0]).sum() if rate else torch.zeros(())
        (loss + lagrangian(gates.expected_sparsity(), 0.5)).backward()
        optimizer.step()
    assert gates.expected_sparsity().item() == pytest.approx(reached, abs=0.03)
    if rate:
        gates.decide(0.5)
        assert gates.kept["heads"][0].tolist() == [False] * 4 + [True] * 4  # those worth most stay


def test_multipliers_ascend_at_their_own_rate() -> None:
    lagrangian = Lagrangian(rate=10.0)
    optimizer = torch.optim.Adam(lagrangian.parameters(), lr=0.01)
    lagrangian(torch.tensor(0.2), 0.5).backward()
    optimizer.step()
    assert lagrangian.multipliers.tolist() == pytest.approx([-0.1, 0.1], abs=1e-4)  # below the target: s is drawn up
    value = lagrangian(torch.tensor(0.2), 0.5).item()
    assert value == pytest.approx(-0.1 * -0.3 + 0.1 * 0.09, abs=1e-4)


def values(*layers: list[float]) -> list[Tensor]:
    return [torch.tensor(layer) for layer in layers]


def counts(kept: dict[str, list[Tensor]], kind: str) -> list[int]:
    return [int(each.sum()) for each in kept[kind]]


@pytest.mark.parametrize(("target", "gone"), [(0.25, 2), (0.5, 4), (0.9, 6)])
def test_exactly_the_target_goes_lowest_first_and_each_layer_keeps_one(target: float, gone: int) -> None:
    gates = {"heads": values([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0])}
    eight = shape([4, 4], [4, 4])
    kept = choose(eight, gates, [], target)
    order = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)][:gone]
    assert [(layer, unit) for layer in (0, 1) for unit in range(4) if not kept["heads"][layer][unit]] == order
    assert share_gone(eight, kept) == gone / 8


def test_units_of_several_sizes_share_one_target() -> None:
    gates = {"heads": values([0.5, 9.0], [9.0, 9.0]), "neurons": values([0.0] * 10 + [9.0] * 10, [9.0] * 20)}
    both = shape([2, 2], [20, 20])
    kept = choose(both, gates, [], 0.25)  # 20 of 80 weights: ten neurons and a head
    assert counts(kept, "heads") == [1, 2]
    assert counts(kept, "neurons") == [10, 20]
    assert share_gone(both, kept) == 0.25


def test_closed_layers_go_whole_as_far_as_the_target_allows_and_open_ones_do_not() -> None:
    gates = {"layers": values([-5.0], [-3.0], [-4.0], [2.0]), "heads": values(*[[1.0, 2.0]] * 4)}
    four = shape([2] * 4, [10] * 4)  # 30 weights a layer
    kept = choose(four, gates, [True, True, True, False], 0.5)
    assert counts(kept, "layers") == [0, 1, 0, 1]
    assert counts(kept, "heads") == [0, 2, 0, 2]
    kept = choose(four, gates, [False] * 4, 0.25)  # 30 of 120: a head in three layers
    assert counts(kept, "layers") == [1] * 4
    assert sum(counts(kept, "heads")) == 5


def test_layers_alone_go_open_or_closed_and_each_stack_keeps_one() -> None:
    gates = {"layers": values([1.0], [2.0], [3.0], [4.0])}
    kept = choose(shape([1] * 4, [0] * 4, stacks=[0, 0, 1, 1]), gates, [False] * 4, 0.75)
    assert counts(kept, "layers") == [0, 1, 0, 1]


@torch.no_grad()
@pytest.mark.parametrize("family", ["bert", "deberta-v2", "llama", "t5"])
def test_decided_gates_give_the_logits_of_the_model_that_is_cut(
    family: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    artifact = tiny_artifact(family, layers=4)
    layout, module = layout_of(artifact.config), load_module(artifact)
    gates = Gates(shape_of(layout, module, FAMILIES[family]), ["layers", "heads", "neurons"])
    torch.manual_seed(1)
    for each in (*gates.stored["heads"], *gates.stored["neurons"]):
        each.normal_()
    gates.stored["layers"][1].fill_(-9.0)
    gates.decide(0.6)
    batch = next(scoring_batches(artifact, context(job_data(), tmp_path), rows=3, batch_size=3))
    inputs: Any = {name: value for name, value in batch.items() if name != "labels"}
    whole = module(**inputs).logits
    with gates.applied(module, FAMILIES[family]):
        masked = module(**inputs).logits
    before = module.num_parameters()
    apply_edits(module, edits_of(gates, layout), FAMILIES[family])
    torch.testing.assert_close(module(**inputs).logits, masked, atol=1e-5, rtol=1e-5)
    assert (masked - whole).abs().max() > 1e-3
    assert [layer.index for layer in module.layout.layers] == [0, 2, 3]
    if family in ("bert", "t5"):  # others have more maps a head, or keys that several heads share
        gone = before - module.num_parameters()
        assert gone == pytest.approx(gates.shape.total(["layers"]) * gates.reached_sparsity(), rel=0.1)


def test_the_target_rises_linearly_over_its_warm_up() -> None:
    gates = Gates(shape([4], [0]), ["heads"])
    loss = GatedLoss(lambda model, batch: torch.zeros(()), gates, FAMILIES["bert"], 0.5, warmup=4, decide_at=6, rate=1)
    assert [loss.target(step) for step in range(6)] == [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]
