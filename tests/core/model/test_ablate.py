"""Logits without a part equal those of a full pass with the part masked, at a fraction of the work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from tiny_models import IMAGE_SIDE
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from assay.core.artifact import Artifact
from assay.core.errors import AssayError, InputError
from assay.core.model.ablate import Cut, layers_replaced, logits_without
from assay.core.model.anatomy import FAMILIES, Family
from assay.core.model.blocks import blocks_of
from assay.core.model.edits import KeepHeads, KeepLayers, KeepNeurons, apply_edits
from assay.core.model.encoder import Encoder
from assay.core.model.linear import in_width
from assay.core.model.load import load_module, load_tokenizer
from assay.core.model.masks import mask_heads, mask_neurons

MakeArtifact = Callable[..., Artifact]
EDITS = [KeepHeads({0: [0, 2], 3: [1]}), KeepLayers([0, 1, 3], of=4), KeepNeurons({1: range(10, 40)})]
HEADS = (2, 4, 1)
TEXTS = ["the film was good", "bad", "a very long story about a man and a woman and a dog"]
CUTS = [
    *(Cut(layer, "heads", (head,)) for layer in range(3) for head in range(HEADS[layer])),
    Cut(1, "heads", (0, 3)),
    *(Cut(layer, "layer") for layer in range(3)),
    *(Cut(layer, "neurons", tuple(range(first, first + 10))) for layer in range(3) for first in (0, 20)),
]


def inputs_of(artifact: Artifact, texts: list[str] = TEXTS) -> dict[str, torch.Tensor]:
    """Of a model of images noise, an image for each text."""
    if FAMILIES[artifact.family].reads_images:
        return {"pixel_values": torch.randn(len(texts), 3, IMAGE_SIDE, IMAGE_SIDE, generator=torch.manual_seed(0))}
    ((_, inputs),) = Encoder(load_tokenizer(artifact), 32).batches(texts, len(texts))
    return {name: torch.from_numpy(value) for name, value in inputs.items()}


@torch.no_grad()
def masked(model: nn.Module, family: Family, inputs: dict[str, torch.Tensor], cut: Cut) -> torch.Tensor:
    """The plain way: one whole pass with the part masked, or with the layer left out."""
    blocks = blocks_of(model, family)
    neurons = [in_width(block.ffn_out) for block in blocks]
    masks = [torch.ones(size) for size in (neurons if cut.part == "neurons" else HEADS)]
    masks[cut.layer][list(cut.units)] = 0
    rest = [block.module for place, block in enumerate(blocks) if cut.part != "layer" or place != cut.layer]
    mask = {"heads": mask_heads, "neurons": mask_neurons, "layer": lambda *given: nullcontext()}[cut.part]
    with mask(model, family, masks), layers_replaced(model, family, rest):
        return model(**inputs).logits


ONE_STACK = [name for name, family in FAMILIES.items() if len(family.stacks) == 1 and not family.shares_layers]


@pytest.mark.parametrize("name", ONE_STACK)
def test_a_part_left_out_is_a_part_masked_in_a_model_that_was_cut_before(
    name: str, tiny_artifact: MakeArtifact
) -> None:
    artifact, family = tiny_artifact(name), FAMILIES[name]
    model = load_module(artifact, "sdpa")
    apply_edits(model, EDITS, family)
    inputs = inputs_of(artifact)
    with torch.no_grad():
        before = model(**inputs).logits
    plain, found = logits_without(model, family, inputs, CUTS, tokens=200)
    torch.testing.assert_close(plain, before, atol=0, rtol=0)
    for cut, logits in zip(CUTS, found, strict=True):
        torch.testing.assert_close(logits, masked(model, family, inputs, cut), atol=1e-5, rtol=1e-5)
        assert (logits - plain).abs().max() > 1e-3, cut  # the part did something
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs).logits, before, atol=0, rtol=0)


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - set(ONE_STACK)))
def test_two_stacks_and_shared_layers_are_refused(name: str, tiny_artifact: MakeArtifact) -> None:
    artifact = tiny_artifact(name)
    with pytest.raises(InputError, match="only where one stack lists each of its layers"):
        logits_without(load_module(artifact), FAMILIES[name], inputs_of(artifact), [Cut(0, "layer")])


@pytest.mark.parametrize("tokens", [1, 40, 10_000])
def test_how_much_goes_through_at_once_changes_nothing(tokens: int, tiny_artifact: MakeArtifact) -> None:
    artifact = tiny_artifact()
    model, inputs = load_module(artifact), inputs_of(artifact)
    cuts = [Cut(layer, "heads", (head,)) for layer in (3, 0) for head in range(4)]
    _, found = logits_without(model, FAMILIES["bert"], inputs, cuts, tokens)
    _, alone = logits_without(model, FAMILIES["bert"], inputs, cuts[5:6])
    torch.testing.assert_close(found[5:6], alone, atol=1e-6, rtol=1e-5)


class MeanPooler(nn.Module):
    """A classifier that reads all tokens, in the place of BERT's."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states.mean(1)


def test_a_model_that_reads_every_token_gets_every_token(tiny_artifact: MakeArtifact) -> None:
    artifact, family = tiny_artifact(layers=2), FAMILIES["bert"]
    model, inputs = load_module(artifact), inputs_of(artifact)
    model.set_submodule("bert.pooler", MeanPooler())
    cuts = [Cut(0, "heads", (1,)), Cut(1, "heads", (1,)), Cut(0, "layer")]
    with torch.no_grad(), mask_heads(model, family, [torch.ones(4), torch.tensor([1.0, 0, 1, 1])]):
        expected = model(**inputs).logits
    torch.testing.assert_close(logits_without(model, family, inputs, cuts)[1][1], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_all_heads_cost_far_less_than_a_pass_each(tiny_artifact: MakeArtifact) -> None:
    artifact = tiny_artifact(layers=6, width=48, heads=12, neurons=192)
    model, inputs = load_module(artifact), inputs_of(artifact)
    cuts = [Cut(layer, "heads", (head,)) for layer in range(6) for head in range(12)]

    def work(act: Callable[[], Any]) -> int:
        with FlopCounterMode(display=False) as counter:
            act()
        return counter.get_total_flops()

    passes = work(lambda: logits_without(model, FAMILIES["bert"], inputs, cuts)) / work(lambda: model(**inputs))
    assert passes < 0.45 * len(cuts)


def test_a_layer_that_goes_past_its_projection_is_an_error(tiny_artifact: MakeArtifact) -> None:
    artifact = tiny_artifact(layers=2)
    model, inputs = load_module(artifact), inputs_of(artifact)
    output = model.bert.encoder.layer[1].attention.output
    output.forward = lambda states, residual: residual
    with pytest.raises(AssayError, match=r"bert\.encoder\.layer\.1\.attention\.output\.dense: this layer does not run"):
        logits_without(model, FAMILIES["bert"], inputs, [Cut(1, "heads", (0,))])
