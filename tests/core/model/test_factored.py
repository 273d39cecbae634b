"""Two matrices in the place of one: the nearest of their rank, cut exactly at their outer sides, told once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from by_family import families
from edits_to_fit import fit
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel

from assay.core.artifact import Artifact
from assay.core.errors import InputError
from assay.core.model.ablate import Cut, logits_without
from assay.core.model.anatomy import FAMILIES, Family
from assay.core.model.blocks import blocks_of
from assay.core.model.edits import (
    Edit,
    FactoriseEmbedding,
    KeepHeads,
    KeepNeurons,
    KeepVocab,
    LowRank,
    ShareLayers,
    apply_edits,
    edit_from_json,
    layout_of,
)  # fmt: skip
from assay.core.model.linear import in_width, matrix, out_width, select
from assay.core.model.load import load_module
from assay.core.model.low_rank import factors, split
from assay.core.model.masks import mask_heads, mask_neurons

MakeArtifact = Callable[..., Artifact]
IDS = torch.tensor([[2, 40, 41, 42, 43, 44, 3], [2, 50, 51, 3, 1, 1, 1]])
INPUTS = {"input_ids": IDS, "attention_mask": (torch.arange(7) < torch.tensor([[7], [4]])).long()}


@torch.no_grad()
def logits(model: PreTrainedModel, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(**{**INPUTS, "input_ids": ids}).logits


def all_maps(model: PreTrainedModel, family: Family, most: int) -> LowRank:
    """Every linear map of every layer at rank `most`, or at all the rank it has."""
    blocks = blocks_of(model, family)
    return LowRank({
        number: {name: min(most, *matrix(block.part(path)).shape) for name, path in block.maps().items()}
        for number, block in enumerate(blocks)
    })  # fmt: skip


@pytest.mark.parametrize("name", families("albert", "bart", "bert", "gpt2", "t5"))
def test_full_rank_changes_no_logit_and_a_low_one_does(name: str, tiny_artifact: MakeArtifact) -> None:
    model, family = load_module(tiny_artifact(name)).double(), FAMILIES[name]
    plain, table = logits(model), model.get_submodule(family.word_embeddings).weight
    apply_edits(model, [all_maps(model, family, 99), FactoriseEmbedding(table.shape[1])], family)
    torch.testing.assert_close(logits(model), plain, atol=1e-5, rtol=0)
    low = load_module(tiny_artifact(name)).double()
    apply_edits(low, [all_maps(low, family, 4)], family)
    assert (logits(low) - plain).abs().max() > 1e-2
    block = blocks_of(low, family)[-1]
    assert all(block.part(path).rank == 4 for path in block.maps().values())


def test_factors_are_the_nearest_of_their_rank() -> None:
    """Their squared error is the sum of the squared singular values left out (Eckart & Young)."""
    whole = torch.randn(12, 20, generator=torch.Generator().manual_seed(0))
    first, second = factors(whole, 5)
    assert (first.shape, second.shape) == ((5, 20), (12, 5))
    left_out = torch.linalg.svdvals(whole)[5:].square().sum()
    torch.testing.assert_close((whole - second @ first).square().sum(), left_out)
    torch.testing.assert_close(first.norm(dim=1), second.norm(dim=0))  # the singular values go to both sides alike
    assert [part.abs().sum() for part in factors(whole, 5, empty=True)] == [0, 0]


def test_a_pair_is_cut_at_its_outer_sides() -> None:
    pair = split(torch.nn.Linear(6, 8), 3)
    whole, bias = matrix(pair).clone(), pair.second.bias.clone()
    select(pair, [5, 1], dim=0)
    select(pair, [0, 2, 4], dim=1)
    torch.testing.assert_close(matrix(pair), whole[[5, 1]][:, [0, 2, 4]])
    assert torch.equal(pair.second.bias, bias[[5, 1]])
    assert (in_width(pair), out_width(pair), pair.rank) == (3, 2, 3)
    states = torch.randn(4, 3)
    torch.testing.assert_close(pair(states), states @ matrix(pair).T + pair.second.bias)


@pytest.mark.parametrize("name", families("albert", "deberta-v2", "gpt2", "llama"))
def test_heads_and_neurons_cut_from_factored_maps_equal_masked_ones(name: str, tiny_artifact: MakeArtifact) -> None:
    model, family = load_module(tiny_artifact(name)), FAMILIES[name]
    apply_edits(model, [all_maps(model, family, 6)], family)
    plain = logits(model)
    heads, neurons = fit([KeepHeads({0: [1, 2, 3], 2: [0]}), KeepNeurons({0: range(0, 48, 2), 3: [5, 6]})], family)
    head_masks, neuron_masks = torch.ones(4, 4), torch.ones(4, 48)
    for layer in range(4):
        head_masks[layer] = torch.isin(torch.arange(4), torch.tensor(heads.heads.get(layer, range(4)))).float()
        kept = torch.tensor(list(neurons.neurons.get(layer, range(48))))
        neuron_masks[layer] = torch.isin(torch.arange(48), kept).float()
    with mask_heads(model, family, head_masks), mask_neurons(model, family, neuron_masks):
        masked = logits(model)
    assert (masked - plain).abs().max() > 1e-2
    apply_edits(model, [heads, neurons], family)
    torch.testing.assert_close(logits(model), masked, atol=1e-5, rtol=0)


def test_parts_of_a_factored_model_are_taken_out_as_masks_do(tiny_artifact: MakeArtifact) -> None:
    model, family = load_module(tiny_artifact("bert")), FAMILIES["bert"]
    apply_edits(model, [all_maps(model, family, 6)], family)
    _, found = logits_without(model, family, INPUTS, [Cut(1, "heads", (2,)), Cut(2, "neurons", (0, 7))])
    masks, neurons = torch.ones(4, 4), torch.ones(4, 48)
    masks[1, 2], neurons[2, [0, 7]] = 0, 0
    with mask_heads(model, family, masks):
        torch.testing.assert_close(found[0], logits(model), atol=1e-5, rtol=0)
    with mask_neurons(model, family, neurons):
        torch.testing.assert_close(found[1], logits(model), atol=1e-5, rtol=0)


def test_uneven_groups_of_llama_outlive_factoring(tiny_artifact: MakeArtifact) -> None:
    """Its key and value maps carry hooks then, which the pair in their place must carry too."""
    model, family = load_module(tiny_artifact("llama")), FAMILIES["llama"]
    apply_edits(model, [KeepHeads({0: [0, 1, 2]})], family)
    plain = logits(model)
    apply_edits(model, [LowRank({0: {"k": 16, "v": 16}})], family)
    torch.testing.assert_close(logits(model), plain, atol=1e-5, rtol=0)


def test_edits_at_once_equal_edits_one_by_one(tiny_artifact: MakeArtifact) -> None:
    """Factors are found between the cuts before and those after."""
    family = FAMILIES["bert"]
    at_once, stepwise = (load_module(tiny_artifact("bert")) for _ in range(2))
    edits: list[Edit] = [KeepHeads({0: [0, 1]}), LowRank({0: {"q": 3}}), KeepHeads({0: [1]}), LowRank({0: {"q": 2}})]
    apply_edits(at_once, edits, family)
    for edit in edits:
        apply_edits(stepwise, [edit], family)
    assert torch.equal(logits(at_once), logits(stepwise))
    assert stepwise.get_submodule("bert.encoder.layer.0.attention.self.query").rank == 2


def test_what_is_frozen_and_the_dtype_stay(tiny_artifact: MakeArtifact) -> None:
    model = load_module(tiny_artifact("t5")).to(torch.bfloat16)  # T5 asks its last map for a dtype
    path = "transformer.encoder.block.0.layer.1.DenseReluDense.wo"
    model.get_submodule(path).requires_grad_(False)
    apply_edits(model, [LowRank({0: {"ffn_out": 4, "q": 4}})], FAMILIES["t5"])
    pair = model.get_submodule(path)
    assert {(each.dtype, each.requires_grad) for each in pair.parameters()} == {(torch.bfloat16, False)}
    assert torch.isfinite(logits(model)).all()


@pytest.mark.parametrize("name", ["bart", "bert", "t5"])
def test_a_vocabulary_cut_after_factoring_changes_no_logit(name: str, tiny_artifact: MakeArtifact) -> None:
    source, family = tiny_artifact(name), FAMILIES[name]
    model, kept = load_module(source), [0, 1, 2, 3, *range(40, 52)]
    apply_edits(model, [FactoriseEmbedding(6)], family)
    plain, before = logits(model), model.num_parameters()
    apply_edits(model, [KeepVocab(kept, of=source.config["vocab_size"])], family)
    assert torch.equal(logits(model, _moved(kept)), plain)
    assert before - model.num_parameters() == 6 * (source.config["vocab_size"] - len(kept))
    first = load_module(source)
    apply_edits(first, [KeepVocab(kept, of=source.config["vocab_size"]), FactoriseEmbedding(6)], family)
    assert first.num_parameters() == model.num_parameters()
    assert (logits(first, _moved(kept)) - plain).abs().max() > 1e-4  # the best of rank 6 for fewer tokens


def _moved(kept: list[int]) -> torch.Tensor:
    return torch.tensor([[kept.index(token) for token in row] for row in IDS.tolist()])


def test_an_embedding_that_also_predicts_tokens_is_refused(tiny_artifact: MakeArtifact) -> None:
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(tiny_artifact("bert").path))
    with pytest.raises(InputError, match=r"cls\.predictions\.decoder has the same weights; only classifiers"):
        apply_edits(model, [FactoriseEmbedding(6)], FAMILIES["bert"])


@pytest.mark.parametrize(
    ("name", "edits", "message"),
    [
        ("bert", [LowRank({0: {"q": 33}})], r"low_rank: layer 0: rank 33 of q is not in 1-32"),
        ("bert", [LowRank({0: {"q": 0}})], r"rank 0 of q is not in 1-32"),
        ("bert", [LowRank({9: {"q": 3}})], r"low_rank: layer 9 is not in the model; present: 0, 1, 2, 3"),
        ("bert", [LowRank({0: {"tail": 3}})], r"low_rank: layer 0 has no map 'tail'"),
        ("bert", [LowRank({0: {"qkv": 3}})], r"low_rank: layer 0 has no map 'qkv'; it has q, k, v, o, ffn_in, ffn_out"),
        ("gpt2", [LowRank({1: {"q": 3}})], r"low_rank: layer 1 has no map 'q'; it has qkv, o, ffn_in, ffn_out"),
        ("bert", [LowRank({0: {"cross_q": 3}})], r"low_rank: layer 0 has no map 'cross_q'"),
        ("bert", [LowRank({0: {"q": 5}}), LowRank({0: {"q": 6}})], r"rank 6 of q is not in 1-5"),
        ("bert", [KeepHeads({0: [1]}), LowRank({0: {"q": 9}})], r"rank 9 of q is not in 1-8"),
        ("albert", [LowRank({0: {"q": 3}})], r"layers 0, 1, 2, 3 have the same weights, so all must get the same rank"),
        ("bert", [FactoriseEmbedding(33)], r"factorise_embedding: rank 33 is not in 1-32, the model's width"),
        ("albert", [FactoriseEmbedding(17)], r"rank 17 of a table of \d+ tokens by 16; give less"),
        ("bert", [FactoriseEmbedding(4), FactoriseEmbedding(3)], r"factored already, at rank 4"),
    ],
)  # fmt: skip
def test_what_cannot_be_factored_is_refused_and_nothing_is_changed(
    name: str, edits: list[Edit], message: str, tiny_artifact: MakeArtifact
) -> None:
    model = load_module(tiny_artifact(name))
    before = {key: value.shape for key, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message):
        apply_edits(model, edits, FAMILIES[name])
    assert {key: value.shape for key, value in model.state_dict().items()} == before


@pytest.mark.parametrize(
    "edit",
    [LowRank({10: {"q": 4, "ffn_in_1": 9}, 2: {"o": 1}}), FactoriseEmbedding(64), ShareLayers([[3, 2], [0, 1]])],
    ids=lambda edit: edit.kind,
)
def test_edits_survive_json(edit: Edit) -> None:
    assert edit_from_json(json.loads(json.dumps(edit.to_json()))) == edit


def test_the_layout_tells_ranks(tiny_artifact: MakeArtifact) -> None:
    artifact = replace(tiny_artifact("bert"), edits=[LowRank({1: {"q": 4}}).to_json(), FactoriseEmbedding(6).to_json()])
    layout = layout_of(artifact.config, artifact.edits)
    assert [layer.ranks for layer in layout.layers] == [{}, {"q": 4}, {}, {}]
    assert layout.embedding_rank == 6
