"""Queries, keys and values against the attention that the model returns, and what its output projection reads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from edits_to_fit import fit
from tiny_models import write_tiny
from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from assay.core.artifact import Task, open_source
from assay.core.errors import AssayError
from assay.core.model.anatomy import FAMILIES
from assay.core.model.blocks import blocks_of
from assay.core.model.edits import DuplicateLayers, Edit, KeepHeads, LowRank, ShareLayers, apply_edits
from assay.core.model.load import load_module
from assay.core.model.outputs import attentions_of
from assay.core.model.projections import output_maps, watch_projections

FAMILY_NAMES = sorted(FAMILIES)
PLAIN = ("bert", "distilbert", "electra", "gpt2", "roberta", "xlm-roberta")  # softmax(q k^T / sqrt(d)) and nothing else
UNEVEN = KeepHeads({0: [1, 2, 3], 2: [0]})
FACTORED = LowRank({0: {"q": 3, "k": 3, "v": 3}})
Live = Callable[[str], PreTrainedModel]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    """A four-layer, four-head model of a family with eager attention, loaded once; each call gives a copy."""
    folder = tmp_path_factory.mktemp("live")

    @cache
    def loaded(name: str) -> PreTrainedModel:
        task: Task = "text-classification" if FAMILIES[name].word_embeddings else "image-classification"
        write_tiny(folder / name, name, task=task)
        return load_module(open_source(folder / name, task))

    return lambda name: copy.deepcopy(loaded(name))


def edited(model: PreTrainedModel, name: str, *edits: Edit) -> PreTrainedModel:
    apply_edits(model, fit(edits, FAMILIES[name]), FAMILIES[name])
    return model


def read_by(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Two images, or the two texts of `batch`."""
    if model.main_input_name == "pixel_values":
        side = model.config.image_size
        return {"pixel_values": torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))}
    return batch()


def batch() -> dict[str, torch.Tensor]:
    """Two texts, the second padded."""
    ids = torch.tensor([[2, 40, 41, 42, 43, 44, 3], [2, 50, 51, 3, 1, 1, 1]])
    return {"input_ids": ids, "attention_mask": (torch.arange(7) < torch.tensor([[7], [4]])).long()}


@contextmanager
def read_by_outputs(model: nn.Module, name: str) -> Iterator[list[torch.Tensor]]:
    """What goes into the output projection of each layer, in the order in which they run."""
    seen: list[torch.Tensor] = []
    maps = {id(block.o): block.o for block in blocks_of(model, FAMILIES[name])}.values()
    handles = [each.register_forward_pre_hook(lambda module, args: seen.append(args[0])) for each in maps]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def check_values(model: PreTrainedModel, name: str) -> None:
    """Weights times values is what the output projection reads, in every layer."""
    with watch_projections(model, FAMILIES[name]) as last, read_by_outputs(model, name) as read:
        weights = attentions_of(model(**read_by(model), output_attentions=True))
        layers = last()
    assert len(layers) == len(weights) == len(read)
    for each, attention, expected in zip(layers, weights, read, strict=True):
        assert each.q.shape[:3] == attention.shape[:3]
        assert each.k.shape == each.v.shape
        mixed = attention @ each.of_each_head(each.v)  # [batch, heads, tokens, head_dim]
        torch.testing.assert_close(mixed.transpose(1, 2).flatten(2), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_weights_times_values_are_what_the_output_projection_reads(name: str, live: Live) -> None:
    check_values(live(name), name)


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_uneven_heads_and_factored_maps_are_seen_too(name: str, live: Live) -> None:
    model = edited(live(name), name, UNEVEN, FACTORED)
    check_values(model, name)


def test_what_the_maps_make_of_positions_is_not_taken_for_states(live: Live) -> None:
    """DeBERTa v3 asks the maps of its keys and queries for the positions too, after the states."""
    config = copy.deepcopy(live("deberta-v2").config)
    config.share_att_key = True
    model = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()
    check_values(model, "deberta-v2")


@pytest.mark.parametrize("name", PLAIN)
@torch.no_grad()
def test_queries_and_keys_give_the_attention_of_plain_families(name: str, live: Live) -> None:
    model = edited(live(name), name, UNEVEN)
    mask = batch()["attention_mask"].bool()[:, None, None]
    if FAMILIES[name].causal:
        mask = mask & torch.ones(7, 7, dtype=torch.bool).tril()
    with watch_projections(model, FAMILIES[name]) as last:
        weights = attentions_of(model(**batch(), output_attentions=True))
    real = batch()["attention_mask"].bool()
    for each, expected in zip(last(), weights, strict=True):
        scores = each.q @ each.k.transpose(-1, -2) / each.q.shape[-1] ** 0.5
        found = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        seen = real[:, None, :, None].expand_as(found)
        torch.testing.assert_close(found[seen], expected[seen], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("edit", [ShareLayers([[0, 1], [2, 3]]), DuplicateLayers([1], times=2, of=4)])
def test_layers_of_one_module_are_told_apart(edit: Edit, live: Live) -> None:
    model = edited(live("bert"), "bert", edit)
    check_values(model, "bert")


@torch.no_grad()
def test_the_output_maps_add_up_to_the_output_projection(live: Live) -> None:
    for name in ("bert", "gpt2", "llama"):
        model = edited(live(name), name, UNEVEN)
        for block, parts in zip(blocks_of(model, FAMILIES[name]), output_maps(model, FAMILIES[name]), strict=True):
            heads = torch.randn(len(parts), parts.shape[2], generator=torch.Generator().manual_seed(0))
            bias = getattr(block.o, "bias", None)
            expected = block.o(heads.flatten()[None])[0] - (0 if bias is None else bias)
            torch.testing.assert_close(torch.einsum("hwd,hd->w", parts, heads), expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_each_pass_is_told_by_itself_and_nothing_is_left_behind(live: Live) -> None:
    model, family = live("bert"), FAMILIES["bert"]
    hooks = sum(len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules())
    with watch_projections(model, family) as last:
        with pytest.raises(AssayError, match="were not computed"):
            last()
        model(**batch())
        first = last()[0].q
        model(input_ids=batch()["input_ids"][:1] + 1)
        assert last()[0].q.shape[0] == 1
        assert not torch.equal(last()[0].q, first[:1])
    assert sum(len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules()) == hooks
