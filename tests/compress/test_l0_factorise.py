"""Ranks that are of no use go, the size asked for is the size that is left, and what is cut says what was gated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from by_family import case
from tiny_jobs import accuracy, carry_out, context, job_data, planted_rows, step_of, stopping_at
from tiny_models import write_tiny

from assay.core.artifact import Artifact, open_source
from assay.core.errors import SettingError
from assay.core.manifest import Manifest, hash_folder
from assay.core.measure.weights_count import count_module
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import apply_edits, layout_of
from assay.core.model.load import load_module, load_tokenizer, save_module
from compress.low_rank.gates import Pair, RankGates
from compress.low_rank.ranks import ranks_by_gates
from compress.pruning import scoring_batches
from compress.steps.l0_factorise import edit_of, pairs_of

MakeArtifact = Callable[..., Artifact]
QUICK = {"epochs": 4.0, "batch_size": 8, "learning_rate": 3e-3, "precision": "fp32"}
QUICK |= {"gate_learning_rate": 0.4, "decide": 0.5}
TRAIN, TEST = planted_rows(96), planted_rows(40, seed=1)
DATA = job_data(TRAIN, TEST)


def facts(artifact: Artifact) -> dict[str, Any]:
    manifest = Manifest.read(artifact.path)
    assert manifest is not None
    return manifest.facts


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("source") / "bert"
    write_tiny(folder, layers=1, neurons=16)
    return open_source(folder, "text-classification")


@pytest.fixture(scope="module")
def made(source: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Half of the parameters gone while it learned the planted words."""
    return carry_out(tmp_path_factory.mktemp("made"), source, [("l0_factorise", QUICK | {"sparsity": 0.5})], DATA)


def test_the_lowest_gates_of_all_maps_close_until_the_budget_is_kept() -> None:
    gates = [torch.tensor([5.0, 1.0, 4.0]), torch.tensor([2.0, 3.0, 0.0])]
    kept = ranks_by_gates(gates, [10, 20], 50)  # of 90: closes 0.0 (20), 1.0 (10), 2.0 (20), and is at 40
    assert [each.tolist() for each in kept] == [[True, False, True], [False, True, False]]
    assert [each.tolist() for each in ranks_by_gates(gates, [10, 20], 70)] == [[True] * 3, [True, True, False]]
    assert [int(each.sum()) for each in ranks_by_gates(gates, [10, 20], 0)] == [1, 1]  # the last stays
    equal = ranks_by_gates([torch.zeros(3)], [1], 2)
    assert equal[0].tolist() == [True, True, False]  # that of the smallest singular value goes


def test_expected_sparsity_is_of_the_parameters_of_the_whole_matrices() -> None:
    pairs = [Pair((0,), 0, "q", 12, 12), Pair((0,), 0, "ffn_in", 36, 12)]
    assert [pair.most for pair in pairs] == [6, 9]  # 6 * 24 = 144 and 9 * 48 = 432: as large as the matrix
    gates = RankGates(pairs)
    with torch.no_grad():
        gates.stored[0].fill_(-1.598596)  # open half of the time
        gates.stored[1].fill_(20.0)
    assert gates.expected_sparsity().item() == pytest.approx(72 / 576, abs=1e-5)
    gates.decide(0.25)  # all of q but one rank, 120 of 576, and one of the other
    assert [int(each.sum()) for each in gates.kept] == [1, 8]
    assert gates.reached_sparsity() == pytest.approx(168 / 576)


@torch.no_grad()
@pytest.mark.parametrize(
    "family",
    [case("bert", slow=False), *(case(name, slow=True) for name in ("albert", "gpt2", "llama", "deberta-v2", "t5"))],
)
def test_pairs_that_are_cut_give_the_logits_of_those_that_are_gated(
    family: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    """Also where heads went unevenly before; and as built anew from the edit alone."""
    source = carry_out(tmp_path, tiny_artifact(family, layers=2), [("prune_heads", {"fraction": 0.25, "rows": 4})])
    layout, module, anatomy = layout_of(source.config, source.edits), load_module(source), FAMILIES[family]
    pairs = pairs_of(module, anatomy, layout, lambda name: True)
    apply_edits(module, [edit_of(pairs, [pair.most for pair in pairs])], anatomy)
    gates = RankGates(pairs)
    torch.manual_seed(1)
    for each in gates.stored:
        each.normal_()
    batch = next(scoring_batches(source, context(job_data(), tmp_path), rows=3, batch_size=3))
    inputs: Any = {name: value for name, value in batch.items() if name != "labels"}
    whole = module(**inputs).logits
    gates.decide(0.5)
    with gates.applied(module, anatomy):
        gated = module(**inputs).logits
    gates.cut(module, anatomy)
    torch.testing.assert_close(module(**inputs).logits, gated, atol=1e-5, rtol=1e-5)
    assert (gated - whole).abs().max() > 1e-3
    again = load_module(source)
    apply_edits(again, [edit_of(pairs, [int(each.sum()) for each in gates.kept])], anatomy, empty=True)
    again.load_state_dict(module.state_dict(), strict=True)
    torch.testing.assert_close(again(**inputs).logits, gated, atol=1e-5, rtol=1e-5)


def test_the_result_is_as_small_as_was_asked_for_and_has_learned(source: Artifact, made: Artifact) -> None:
    told = facts(made)
    before, after = (count_module(load_module(each)).parameters for each in (source, made))
    assert told["parameters_before"] == 4 * 32 * 32 + 2 * 32 * 16
    assert before - after == told["parameters_before"] - told["parameters_after"]
    assert 0.5 <= told["sparsity"]["reached"] < 0.5 + 64 / told["parameters_before"]  # within one rank
    assert told["sparsity"]["expected"] > 0.2  # where the Lagrangian drew it, from 0.03
    assert layout_of(made.config, made.edits).layers[0].ranks == told["ranks"]["0"]
    assert set(told["ranks"]["0"]) == {"q", "k", "v", "o", "ffn_in", "ffn_out"}
    assert accuracy(made, TEST) >= 0.85 > accuracy(source, TEST)


@pytest.mark.slow
def test_the_graph_says_the_same(made: Artifact, tmp_path: Path) -> None:
    assert facts(carry_out(tmp_path, made, [("export_onnx", {})]))["parity"]["max_abs"] < 1e-4


@pytest.mark.slow
def test_ranks_of_no_use_go_first(source: Artifact, made: Artifact, tmp_path: Path) -> None:
    """The output of the attention starts with two singular values that are not 0; the rest has nothing to learn by."""
    module = load_module(source)
    weight = module.get_submodule("bert.encoder.layer.0.attention.output.dense").weight
    left, values, right = torch.linalg.svd(weight.detach())
    with torch.no_grad():
        weight.copy_((left[:, :2] * values[:2]) @ right[:2])
    (tmp_path / "planted").mkdir()
    save_module(module, tmp_path / "planted", load_tokenizer(source))
    planted = open_source(tmp_path / "planted", "text-classification")
    ranks = facts(carry_out(tmp_path, planted, [("l0_factorise", QUICK | {"sparsity": 0.5})], DATA))["ranks"]["0"]
    assert ranks["o"] <= 3
    assert facts(made)["ranks"]["0"]["o"] > 5


def test_only_the_parts_named_and_not_yet_split_are_gated(source: Artifact, tmp_path: Path) -> None:
    settings = {"epochs": 0.1, "batch_size": 8, "sparsity": 0.5}
    first = carry_out(tmp_path, source, [("l0_factorise", settings | {"parts": ["ffn"]})])
    assert set(facts(first)["ranks"]["0"]) == {"ffn_in", "ffn_out"}
    second = carry_out(tmp_path, first, [("l0_factorise", settings)])
    assert set(facts(second)["ranks"]["0"]) == {"q", "k", "v", "o"}
    assert set(layout_of(second.config, second.edits).layers[0].ranks) == {"q", "k", "v", "o", "ffn_in", "ffn_out"}
    with pytest.raises(SettingError, match=r"l0_factorise\.parts: all the maps named are factored already"):
        carry_out(tmp_path, second, [("l0_factorise", settings)])
    with pytest.raises(SettingError, match=r"l0_factorise\.parts: cross_attention: no layer of this model attends"):
        step_of("l0_factorise", sparsity=0.5, parts=["cross_attention"]).check(layout_of(source.config), None)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [pytest.param(5, id="while learned"), pytest.param(11, id="after decided")])
def test_a_resumed_training_is_the_one_that_never_stopped(stop: int, source: Artifact, tmp_path: Path) -> None:
    step = step_of("l0_factorise", **QUICK | {"epochs": 1.0, "sparsity": 0.5})
    results = []
    for name, at in (("straight", None), ("resumed", stop)):
        out, scratch = tmp_path / name, tmp_path / f"{name}-scratch"
        out.mkdir()
        scratch.mkdir()
        ctx = replace(context(DATA, scratch, lineage=(source,)), checkpoint_seconds=0 if at else 60)
        if at:
            with pytest.raises(KeyboardInterrupt):
                step.apply(source, out, replace(ctx, progress=stopping_at(at)))
        results.append(step.apply(source, out, ctx))
    assert [each["resumed_from"] for each in results] == [None, stop - 1]
    assert hash_folder(tmp_path / "resumed") == hash_folder(tmp_path / "straight")
    for fact in ("ranks", "multipliers", "sparsity"):
        assert results[0][fact] == results[1][fact]
