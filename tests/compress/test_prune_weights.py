"""Single weights go to zero where the method says, and stay zero through training and export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_jobs import run, write_job
from tiny_jobs import accuracy, carry_out, finish, job_data, planted_rows, step_of
from tiny_models import write_tiny

from assay.core.artifact import WEIGHTS, Artifact, open_source
from assay.core.errors import InputError
from assay.core.manifest import Manifest
from assay.core.measure.weights_count import count_graph, count_module
from assay.core.model.load import load_module
from assay.core.model.predict import open_predictor
from compress.sparsity.matrices import prunable
from reports.claims import best_trade, claims
from reports.collect import Run, Variant, collect

MakeArtifact = Callable[..., Artifact]
QUICK = {"epochs": 4.0, "batch_size": 8, "learning_rate": 3e-3, "precision": "fp32"}
TRAIN, TEST = planted_rows(96), planted_rows(40, seed=1)
DATA = job_data(TRAIN, TEST)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def pretrained(folder: Path) -> Artifact:
    write_tiny(folder / "source", layers=2, headless=True)
    return open_source(folder / "source", "text-classification")


@pytest.fixture(scope="module")
def trained(folder: Path, pretrained: Artifact) -> Artifact:
    """Two layers that know the planted words."""
    return carry_out(folder, pretrained, [("finetune", QUICK)], DATA)


@pytest.fixture(scope="module")
def half(folder: Path, trained: Artifact) -> Artifact:
    return prune(trained, folder, fraction=0.5)


def prune(source: Artifact, folder: Path, **settings: Any) -> Artifact:
    return carry_out(folder, source, [("prune_weights", {"rows": 24, **settings})], DATA)


def facts(artifact: Artifact) -> dict[str, Any]:
    return Manifest.read(artifact.path).facts


def weights(artifact: Artifact) -> dict[str, torch.Tensor]:
    """The matrices of the layers by name, [out, in]."""
    return {each.label: each.weight for each in prunable(load_module(artifact), artifact)}


def zeros(artifact: Artifact) -> dict[str, torch.Tensor]:
    return {label: weight == 0 for label, weight in weights(artifact).items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def distance(pruned: Artifact, source: Artifact) -> float:
    """Mean squared difference of the logits on the rows that the methods look at."""
    ours, full = (open_predictor(model, 32).logits(TRAIN.texts) for model in (pruned, source))
    return float(((ours - full) ** 2).mean())


def test_the_largest_stay_as_they_were(trained: Artifact, half: Artifact) -> None:
    before, after = (torch.cat([weight.flatten() for weight in weights(each).values()]) for each in (trained, half))
    gone = after == 0
    assert int(gone.sum()) == len(before) // 2
    assert before[gone].abs().max() <= before[~gone].abs().min()
    assert torch.equal(before[~gone], after[~gone])


def test_only_the_matrices_of_the_layers_change(trained: Artifact, half: Artifact) -> None:
    before, after = load_module(trained).state_dict(), load_module(half).state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    parts = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
             "intermediate.dense", "output.dense")  # fmt: skip
    assert changed == {f"bert.encoder.layer.{layer}.{part}.weight" for layer in (0, 1) for part in parts}
    found = facts(half)
    assert found["method"] == "magnitude"
    assert found["sparsity"]["fraction"] == 0.5
    assert found["sparsity"]["by_matrix"].keys() == weights(half).keys()
    assert {"bert.embeddings.word_embeddings", "bert.pooler.dense", "classifier"} <= set(found["left_out"])


def test_embeddings_and_head_go_where_they_are_named(trained: Artifact, tmp_path: Path) -> None:
    found = facts(prune(trained, tmp_path, fraction=0.5, scope="matrix", also=["embeddings", "head"]))
    shares = found["sparsity"]["by_matrix"]
    outside = {"bert.embeddings.word_embeddings", "bert.pooler.dense", "classifier"}
    assert {label for label in shares if not label[0].isdigit()} == outside
    assert set(shares.values()) == {0.5}
    assert not outside & set(found["left_out"])


def test_matrices_carry_the_numbers_of_the_original_layers(trained: Artifact, tmp_path: Path) -> None:
    chain = [("prune_layers", {"layers": [1]}), ("prune_weights", {"fraction": 0.5})]
    shares = facts(carry_out(tmp_path, trained, chain, DATA))["sparsity"]["by_matrix"]
    assert {label.partition(".")[0] for label in shares} == {"1"}


@pytest.mark.parametrize("method", ["magnitude", "wanda", "sparsegpt", "random"])
def test_of_every_four_inputs_two_stay(method: str, trained: Artifact, tmp_path: Path) -> None:
    pruned = prune(trained, tmp_path, method=method, pattern="2:4")
    for weight in weights(pruned).values():
        assert ((weight.unflatten(1, (-1, 4)) != 0).sum(-1) == 2).all()
    assert facts(pruned)["sparsity"]["fraction"] == 0.5


def test_methods_that_look_at_rows_keep_more_than_size_alone_and_all_beat_chance(
    trained: Artifact, half: Artifact, tmp_path: Path
) -> None:
    found = {
        name: distance(prune(trained, tmp_path, fraction=0.5, method=name), trained)
        for name in ("wanda", "sparsegpt", "random")
    }
    found["magnitude"] = distance(half, trained)
    assert found["sparsegpt"] < found["wanda"] < found["random"]
    assert found["sparsegpt"] < found["magnitude"] < found["random"]


def test_wanda_takes_the_same_share_of_each_row(trained: Artifact, tmp_path: Path) -> None:
    pruned = zeros(prune(trained, tmp_path, fraction=0.25, method="wanda"))
    for gone in pruned.values():
        assert (gone.sum(1) == gone.shape[1] // 4).all()
    by_matrix = zeros(prune(trained, tmp_path, fraction=0.25, method="wanda", scope="matrix"))
    assert {float(gone.float().mean()) for gone in by_matrix.values()} == {0.25}
    assert not equal(pruned, by_matrix)


def test_pruning_further_keeps_the_zeros(half: Artifact, tmp_path: Path) -> None:
    for method in ("wanda", "random"):
        more = zeros(prune(half, tmp_path, fraction=0.8, method=method))
        assert all((more[label] | ~gone).all() for label, gone in zeros(half).items()), method


@pytest.mark.parametrize("step", ["finetune", "distil"])
def test_zeros_stay_zero_while_the_rest_learns(step: str, half: Artifact, trained: Artifact, tmp_path: Path) -> None:
    settings = QUICK | {"epochs": 1.0, "weight_decay": 0.1}
    after = carry_out(tmp_path, half, [(step, settings)], DATA, trained)
    before = weights(half)
    assert equal(zeros(after), zeros(half))
    assert all(not torch.equal(weight, before[label]) for label, weight in weights(after).items())
    assert facts(after)["zeros_held"] == facts(half)["sparsity"]["zeros"]


def test_zeros_may_grow_back_where_it_is_asked_for(half: Artifact, tmp_path: Path) -> None:
    settings = QUICK | {"epochs": 1.0, "keep_zeros": False}
    after = carry_out(tmp_path, half, [("finetune", settings)], DATA)
    assert not any(gone.any() for gone in zeros(after).values())
    assert facts(after)["zeros_held"] == 0


def test_a_dense_model_holds_no_zeros(trained: Artifact) -> None:
    assert facts(trained)["zeros_held"] == 0


@pytest.mark.slow
def test_zeros_make_no_smaller_file_and_are_counted_in_torch_and_onnx(
    trained: Artifact, half: Artifact, tmp_path: Path
) -> None:
    gone = facts(half)["sparsity"]["zeros"]
    dense, sparse = (count_module(load_module(each)) for each in (trained, half))
    assert sparse.parameters == dense.parameters
    assert dense.nonzero_parameters - sparse.nonzero_parameters == gone
    assert (half.path / WEIGHTS).stat().st_size == (trained.path / WEIGHTS).stat().st_size
    graphs = [carry_out(tmp_path, each, [("export_onnx", {})], DATA).path / "model.onnx" for each in (trained, half)]
    dense, sparse = map(count_graph, graphs)
    assert sparse.parameters == dense.parameters
    assert dense.nonzero_parameters - sparse.nonzero_parameters == gone
    assert graphs[0].stat().st_size == graphs[1].stat().st_size


@pytest.mark.slow  # a whole job
def test_the_report_claims_no_gain_from_zeros(pretrained: Artifact, tmp_path: Path) -> None:
    variants = {"sparse": [{"prune_weights": {"fraction": 0.9, "also": ["embeddings"]}}]}
    run(write_job(tmp_path / "job.yaml", pretrained.path, variants=variants), tmp_path / "run")
    found = collect(tmp_path / "run")
    sparse, full = named(found, "sparse"), named(found, "teacher")
    assert sparse.measurement["parameters"] == full.measurement["parameters"]
    assert sparse.measurement["nonzero_parameters"] < 0.3 * full.measurement["nonzero_parameters"]
    assert abs(sparse.measurement["size_bytes"] / full.measurement["size_bytes"] - 1) < 0.01
    (told,) = [line for line in claims(found) if line.startswith("sparse keeps")]
    assert "parameters are zero; zeros are stored and multiplied like any other weight" in told
    assert "about the same size as the teacher in PyTorch" in told
    assert best_trade(found) is None


def named(found: Run, name: str) -> Variant:
    return next(variant for variant in found.variants if variant.name == name)


@pytest.fixture(scope="module")
def ticket(folder: Path, pretrained: Artifact, trained: Artifact) -> Artifact:
    step = step_of("prune_weights", fraction=0.5, rewind_to=0)
    return finish(folder, "ticket______", step, [pretrained, trained], DATA)


def test_a_ticket_has_the_mask_of_the_end_and_the_weights_of_the_beginning(
    ticket: Artifact, half: Artifact, pretrained: Artifact, folder: Path
) -> None:
    assert equal(zeros(ticket), zeros(half))
    untrained = {"epochs": 0.01, "learning_rate": 1e-30, "precision": "fp32"}
    start = carry_out(folder, pretrained, [("finetune", untrained)], DATA)
    for label, weight in weights(ticket).items():
        torch.testing.assert_close(weight, weights(start)[label].masked_fill(weight == 0, 0), atol=0, rtol=0)
    heads = [load_module(each).classifier.weight for each in (ticket, start)]
    torch.testing.assert_close(*heads, atol=0, rtol=0)
    assert not equal(weights(ticket), weights(half))


@pytest.mark.slow
def test_a_ticket_learns_again_and_keeps_its_zeros(
    ticket: Artifact, trained: Artifact, pretrained: Artifact, tmp_path: Path
) -> None:
    """Twice: the second round takes more, from the weights of the beginning again."""
    lineage = [pretrained, trained, ticket]
    learn, prune_more = ("finetune", QUICK), ("prune_weights", {"fraction": 0.75, "rewind_to": 0})
    for name, settings in (learn, prune_more, learn):
        lineage.append(finish(tmp_path, f"{len(lineage):_<12}", step_of(name, **settings), lineage, DATA))
    winner = lineage[-1]
    share = np.mean([gone.float().mean() for gone in zeros(winner).values()])
    assert share == pytest.approx(0.75, abs=0.05)
    assert all((zeros(winner)[label] | ~gone).all() for label, gone in zeros(ticket).items())
    assert accuracy(winner, TEST) >= 0.9


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ([], r"prune_weights\.rewind_to: 0 is not before the model to prune; allowed: nothing, since no step stands"),
        ([("prune_layers", {"keep": 1})], r"prune_weights\.rewind_to: the model after step 0 has another shape"),
    ],
)
def test_rewinding_to_what_does_not_fit_is_refused(
    chain: list[Any], message: str, trained: Artifact, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        carry_out(tmp_path, trained, [*chain, ("prune_weights", {"fraction": 0.5, "rewind_to": 0})], DATA)


def test_a_pattern_that_does_not_fit_the_matrices_is_refused(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pattern: 0\.output\.dense has 44 inputs, which is no multiple of 8"):
        prune(tiny_artifact(layers=1, neurons=44), tmp_path, pattern="4:8")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give either fraction or pattern"),
        ({"fraction": 0.5, "pattern": "2:4"}, "give either fraction or pattern"),
        ({"pattern": "4:4"}, "pattern 4:4: 4 of 4 leaves nothing to prune"),
        ({"pattern": "2:4", "scope": "layer"}, "scope layer: pattern 2:4 compares within its groups"),
        (
            {"fraction": 0.5, "method": "sparsegpt", "scope": "row"},
            "scope row does not go with sparsegpt; allowed: no",
        ),
        ({"fraction": 0.5, "method": "wanda", "scope": "global"}, "does not go with wanda; allowed: row or matrix"),
        ({"fraction": 0.5, "method": "wanda", "also": ["embeddings"]}, "an embedding multiplies nothing"),
        ({"pattern": "2:4", "also": ["embeddings"]}, "an embedding has none; use fraction"),
        ({"fraction": 0.5, "method": "sparsegpt", "rewind_to": 0}, "sparsegpt changes what stays"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step_of("prune_weights", **settings)


@pytest.mark.parametrize(
    ("family", "method"), [("gpt2", "sparsegpt"), ("bart", "wanda"), ("albert", "sparsegpt"), ("deberta-v2", "wanda")]
)
def test_families_that_hold_their_maps_in_other_ways(
    family: str, method: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    """Maps stored [in, out], a decoder over an encoder, one layer for all, maps of relative positions."""
    source = tiny_artifact(family, layers=2)
    pruned = prune(source, tmp_path, method=method, pattern="2:4")
    found = weights(pruned)
    assert len(found) >= (4 if family == "gpt2" else 6)
    assert all(((weight.unflatten(1, (-1, 4)) != 0).sum(-1) == 2).all() for weight in found.values())
    assert np.isfinite(open_predictor(pruned, 32).logits(TEST.texts)).all()
