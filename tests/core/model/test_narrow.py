"""States in a basis of their own: a rotation changes no output, fewer coordinates lose what was in the others alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache

import pytest
import torch
from by_family import case
from planted_width import plant_states
from tiny_models import write_tiny
from transformers import ElectraConfig, ElectraForMaskedLM, PreTrainedModel

from assay.core.artifact import Task, open_source
from assay.core.errors import AssayError, InputError
from assay.core.model.anatomy import FAMILIES, Family
from assay.core.model.blocks import blocks_of
from assay.core.model.edits import (
    Edit,
    FactoriseEmbedding,
    KeepHeads,
    KeepLayers,
    KeepNeurons,
    KeepVocab,
    LowRank,
    ReduceWidth,
    ShareLayers,
    apply_edits,
    edit_from_json,
)  # fmt: skip
from assay.core.model.linear import in_width, matrix
from assay.core.model.load import load_module
from assay.core.model.narrow import give_basis
from assay.core.model.residual import stream_of
from assay.core.model.rotated_norm import RotatedNorm

Live = Callable[..., PreTrainedModel]
IDS = torch.tensor([[2, 40, 41, 42, 43, 44, 3], [2, 50, 51, 3, 1, 1, 1]])
INPUTS = {"input_ids": IDS, "attention_mask": (torch.arange(7) < torch.tensor([[7], [4]])).long()}
KNOWN = ("bert", "distilbert", "electra", "gpt2", "llama", "mpnet", "roberta", "xlm-roberta")
of_every_family = pytest.mark.parametrize("name", [case(name, slow=name not in ("bert", "llama")) for name in KNOWN])


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    """A four-layer model of a family, loaded once; each call gives a copy."""
    folder = tmp_path_factory.mktemp("live")

    @cache
    def loaded(name: str, task: Task) -> PreTrainedModel:
        write_tiny(folder / name / task, name, task=task)
        return load_module(open_source(folder / name / task, task))

    return lambda name, task="text-classification": copy.deepcopy(loaded(name, task))


@torch.no_grad()
def logits(model: PreTrainedModel, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(**{**INPUTS, "input_ids": ids}).logits


def random_basis(model: PreTrainedModel, family: Family, width: int, seed: int = 0) -> torch.Tensor:
    """[states, width] of orthonormal columns, the mean's first where norms subtract it."""
    stream = stream_of(model, family)
    states = in_width(stream.readers[0])
    drawn = torch.randn(states, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    if stream.mean is not None:
        drawn[:, 0] = stream.mean
    return torch.linalg.qr(drawn).Q


def rotate(model: PreTrainedModel, name: str, width: int = 32, seed: int = 0) -> None:
    """Put the states of a model into a random basis."""
    family = FAMILIES[name]
    basis = random_basis(model, family, width, seed)
    give_basis(model, basis)
    apply_edits(model, [ReduceWidth(width, len(basis))], family)


@of_every_family
@pytest.mark.parametrize("head", ["classifier", "language"])
def test_a_rotation_changes_no_output(name: str, head: str, live: Live) -> None:
    """Nor does another one after it; the states themselves are others."""
    task = FAMILIES[name].language_task if head == "language" else "text-classification"
    model = live(name, task)
    plain, states = logits(model), model(**INPUTS, output_hidden_states=True).hidden_states
    for seed in range(2):
        rotate(model, name, seed=seed)
        torch.testing.assert_close(logits(model), plain, atol=1e-5, rtol=0)
    moved = model(**INPUTS, output_hidden_states=True).hidden_states
    assert all((new - old).abs().max() > 0.1 for new, old in zip(moved, states, strict=True))
    rotate(model, name, width=16)
    assert (logits(model) - plain).abs().max() > 1e-2
    assert model.get_input_embeddings().weight.shape[1] == 16
    decoder = model.get_output_embeddings() if task != "text-classification" else None
    if decoder is not None:
        assert decoder.weight.shape[1] == 16
        assert (decoder.weight is model.get_input_embeddings().weight) == model.config.tie_word_embeddings


@of_every_family
def test_states_that_live_in_few_directions_lose_nothing(name: str, live: Live) -> None:
    """A random basis of the same width, the control, does."""
    family = FAMILIES[name]
    models = [live(name) for _ in range(2)]
    planted, other = (plant_states(model, family, 12) for model in models)
    assert torch.equal(planted, other)
    plain = logits(models[0])
    give_basis(models[0], planted)
    apply_edits(models[0], [ReduceWidth(12, 32)], family)
    torch.testing.assert_close(logits(models[0]), plain, atol=1e-5, rtol=0)
    rotate(models[1], name, width=12)
    assert (logits(models[1]) - plain).abs().max() > 1e-2


def test_of_a_layer_norm_before_maps_nothing_but_its_division_is_left(live: Live) -> None:
    for name, maps in (("gpt2", 1), ("bert", 9)):
        model = live(name)
        rotate(model, name)
        norms = [part for part in model.modules() if isinstance(part, RotatedNorm)]
        assert len(norms) == 9
        assert sum(norm.affine is not None for norm in norms) == maps


def test_a_map_without_bias_gets_the_shift_of_a_norm_before_it(live: Live) -> None:
    model = live("gpt2")
    first = blocks_of(model, FAMILIES["gpt2"])[0].module
    shifted = torch.nn.Linear(32, 96, bias=False)
    shifted.weight.data.copy_(first.get_submodule("attn.c_attn").weight.T)
    first.set_submodule("attn.c_attn", shifted)
    plain = logits(model)
    rotate(model, "gpt2")
    assert shifted.bias.abs().max() > 1e-3
    torch.testing.assert_close(logits(model), plain, atol=1e-5, rtol=0)


def test_an_embedding_of_another_width_is_left_alone(live: Live) -> None:
    """ELECTRA maps it to the states' width, and it is that map which is turned."""
    torch.manual_seed(0)
    config = ElectraConfig(vocab_size=60, hidden_size=32, embedding_size=16, num_hidden_layers=2,
                           num_attention_heads=4, intermediate_size=48)  # fmt: skip
    model = ElectraForMaskedLM(config).eval()
    plain, table = logits(model), model.get_input_embeddings().weight
    rotate(model, "electra")
    torch.testing.assert_close(logits(model), plain, atol=1e-5, rtol=0)
    rotate(model, "electra", width=16)
    rotate(model, "electra", width=8)
    assert model.get_input_embeddings().weight is table is model.get_output_embeddings().weight
    assert model.electra.embeddings_project.weight.shape == (8, 16)
    assert torch.isfinite(logits(model)).all()


CUTS: list[Edit] = [KeepHeads({0: [1, 2, 3]}), KeepNeurons({1: range(0, 48, 2)}), KeepLayers([0, 1, 3], of=4)]


@pytest.mark.parametrize("name", ["bert", case("gpt2", slow=True), case("llama", slow=True)])
def test_cuts_before_and_after_a_rotation_are_the_same(name: str, live: Live) -> None:
    family = FAMILIES[name]
    plain, first, last = (live(name) for _ in range(3))
    kept = [0, 1, 2, 3, *range(40, 52)]
    edits = [*CUTS, KeepVocab(kept, of=plain.config.vocab_size)]
    ids = torch.tensor([[kept.index(token) for token in row] for row in IDS.tolist()])
    apply_edits(plain, edits, family)
    apply_edits(first, edits, family)
    rotate(first, name)
    rotate(last, name)
    apply_edits(last, edits, family)
    for model in (first, last):
        torch.testing.assert_close(logits(model, ids), logits(plain, ids), atol=1e-5, rtol=0)
    assert {key: value.shape for key, value in first.state_dict().items()} == {
        key: value.shape for key, value in last.state_dict().items()
    }


def test_factors_and_shared_layers_are_turned_once(live: Live) -> None:
    family = FAMILIES["bert"]
    model = live("bert")
    before: list[Edit] = [ShareLayers([[0, 1], [2, 3]]), FactoriseEmbedding(6)]
    ranks = dict.fromkeys(("q", "o", "ffn_in", "ffn_out"), 8)
    apply_edits(model, [*before, LowRank({0: ranks, 1: ranks})], family)
    plain = logits(model)
    rotate(model, "bert")
    torch.testing.assert_close(logits(model), plain, atol=1e-5, rtol=0)
    assert model.get_input_embeddings().weight.shape[1] == 6
    rotate(model, "bert", width=16)
    apply_edits(model, [LowRank({2: {"q": 16}, 3: {"q": 16}})], family)
    assert torch.isfinite(logits(model)).all()
    assert matrix(model.bert.encoder.layer[0].attention.self.query).shape == (32, 16)


def test_what_is_frozen_and_the_dtype_stay(live: Live) -> None:
    model = live("bert").to(torch.bfloat16)
    model.bert.embeddings.requires_grad_(False)
    rotate(model, "bert", width=16)
    assert {value.dtype for value in model.parameters()} == {torch.bfloat16}
    trained = {name for name, value in model.named_parameters() if not value.requires_grad}
    assert trained == {name for name, _ in model.named_parameters() if name.startswith("bert.embeddings.")}
    assert torch.isfinite(logits(model)).all()


def test_training_reaches_the_scale_of_a_norm(live: Live) -> None:
    model = live("bert")
    rotate(model, "bert", width=16)
    model(**INPUTS).logits.square().sum().backward()
    norm = model.bert.encoder.layer[0].output.LayerNorm
    assert norm.affine.weight.grad[:, 0].abs().max() == 0  # of the mean, which is subtracted
    assert norm.affine.weight.grad[:, 1:].abs().min() > 0


@pytest.mark.parametrize(
    ("name", "edits", "message"),
    [
        ("t5", [ReduceWidth(16, 32)], r"works for bert, distilbert, electra, gpt2, llama, mpnet, roberta, xlm-roberta, "
                                      r"not for t5"),
        ("bert", [ReduceWidth(33, 32)], r"reduce_width: width 33 is not in 2-32"),
        ("bert", [ReduceWidth(1, 32)], r"width 1 is not in 2-32"),
        ("bert", [ReduceWidth(16, 48)], r"made for states of width 48, these have 32"),
        ("bert", [LowRank({0: {"q": 20}}), ReduceWidth(16, 32)], r"layer 0: q has rank 20, more than width 16"),
        ("bert", [FactoriseEmbedding(20), ReduceWidth(16, 32)], r"embedding has rank 20, more than width 16"),
        ("bert", [ReduceWidth(16, 32), LowRank({0: {"q": 20}})], r"rank 20 of q is not in 1-16"),
        ("bert", [ReduceWidth(16, 32), ReduceWidth(8, 32)], r"made for states of width 32, these have 16"),
    ],
)  # fmt: skip
def test_what_cannot_be_narrowed_is_refused_and_nothing_is_changed(
    name: str, edits: list[Edit], message: str, live: Live
) -> None:
    model = live(name)
    before = {key: value.shape for key, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message):
        apply_edits(model, edits, FAMILIES[name])
    assert {key: value.shape for key, value in model.state_dict().items()} == before


def test_a_model_with_weights_must_be_given_a_basis_that_fits(live: Live) -> None:
    model, family = live("bert"), FAMILIES["bert"]
    with pytest.raises(AssayError, match=r"needs a basis of shape \[\(32, 16\)\], give_basis gave \[\]"):
        apply_edits(model, [ReduceWidth(16, 32)], family)
    give_basis(model, torch.eye(32)[:, :8])
    with pytest.raises(AssayError, match=r"give_basis gave \[\(32, 8\)\]"):
        apply_edits(model, [ReduceWidth(16, 32)], family)


def test_the_edit_survives_json() -> None:
    edit = ReduceWidth(256, 384)
    assert edit_from_json(json.loads(json.dumps(edit.to_json()))) == edit
