"""A removed part equals a masked part, in every family, alone and stacked; masking matters at all."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pytest
import torch
from by_family import KINDS, OF_IMAGES, classes_of, families
from edits_to_fit import fit
from tiny_models import write_tiny
from transformers import AutoModelForMaskedLM, BertConfig, PreTrainedModel

from assay.core.artifact import open_source
from assay.core.errors import AssayError, InputError
from assay.core.model.anatomy import FAMILIES, family_of
from assay.core.model.blocks import blocks_of, modules_of
from assay.core.model.edits import Edit, KeepHeads, KeepLayers, KeepNeurons, apply_edits, edit_from_json, layout_of
from assay.core.model.images import PIXELS
from assay.core.model.layout import unedited_layout
from assay.core.model.load import load_module
from assay.core.model.masks import check_masking, mask_heads, mask_neurons

Live = Callable[[str], PreTrainedModel]
UNEVEN = {0: [1, 2, 3], 2: [0]}
NEURONS = {0: list(range(0, 48, 2)), 3: [5, 6, 7, 40]}


of_every_family = pytest.mark.parametrize("name", sorted(FAMILIES))
of_every_kind = pytest.mark.parametrize("name", families(*KINDS, "vit", of=tuple(sorted(FAMILIES))))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PreTrainedModel]:
    """A four-layer, four-head model of a family, loaded once; each call gives a copy."""
    folder = tmp_path_factory.mktemp("live")

    @cache
    def loaded(name: str) -> PreTrainedModel:
        write_tiny(folder / name, name, task=classes_of(name))
        return load_module(open_source(folder / name, classes_of(name)))

    return lambda name: copy.deepcopy(loaded(name))


def batch(images: bool = False) -> dict[str, torch.Tensor]:
    """Two rows, the second padded; or two images."""
    if images:
        return {PIXELS: torch.linspace(-1, 1, 2 * 3 * 32 * 32).sin().reshape(2, 3, 32, 32)}
    ids = torch.tensor([[2, 40, 41, 42, 43, 44, 3], [2, 50, 51, 3, 1, 1, 1]])
    return {"input_ids": ids, "attention_mask": (torch.arange(7) < torch.tensor([[7], [4]])).long()}


@torch.no_grad()
def logits(model: PreTrainedModel) -> torch.Tensor:
    return model(**batch(model.config.model_type in OF_IMAGES)).logits


def neurons_of(model: PreTrainedModel) -> int:
    """48, but where a family has multiples of its width."""
    return len(unedited_layout(model.config.to_dict(), FAMILIES[model.config.model_type]).layers[0].neurons)


def keep_masks(kept: Mapping[int, Sequence[int]], units: int) -> torch.Tensor:
    """[4 layers, units] of ones, with zeros where `kept` leaves a unit out."""
    masks = torch.ones(4, units)
    for layer, numbers in kept.items():
        masks[layer] = torch.isin(torch.arange(units), torch.tensor(numbers)).float()
    return masks


@of_every_family
def test_removed_heads_equal_masked_heads(name: str, live: Live) -> None:
    model, family = live(name), FAMILIES[name]
    plain = logits(model)
    (edit,) = fit([KeepHeads(UNEVEN)], family)
    with mask_heads(model, family, keep_masks(edit.heads, 4)):
        masked = logits(model)
    apply_edits(model, [edit], family)
    assert (masked - plain).abs().max() > 1e-2
    torch.testing.assert_close(logits(model), masked, atol=1e-5, rtol=0)


@of_every_family
def test_removed_neurons_equal_masked_neurons(name: str, live: Live) -> None:
    model, family = live(name), FAMILIES[name]
    plain = logits(model)
    (edit,) = fit([KeepNeurons(NEURONS)], family)
    with mask_neurons(model, family, keep_masks(edit.neurons, neurons_of(model))):
        masked = logits(model)
    apply_edits(model, [edit], family)
    assert (masked - plain).abs().max() > 1e-2
    torch.testing.assert_close(logits(model), masked, atol=1e-5, rtol=0)


@of_every_kind
def test_removed_layers_are_the_named_ones(name: str, live: Live) -> None:
    model, family = live(name), FAMILIES[name]
    blocks, plain = modules_of(model, family), logits(model)
    layout = apply_edits(model, fit([KeepLayers([0, 2], of=4)], family), family)
    assert modules_of(model, family) == [blocks[0], blocks[2]]
    assert [getattr(model.config, stack.depth_key) for stack in family.stacks] == list(layout.depths)
    assert (logits(model) - plain).abs().max() > 1e-3


@of_every_kind
def test_stacked_edits_name_originals(name: str, live: Live) -> None:
    """Heads, layers, neurons, heads again: the same as the masks of all of them on the model that kept its layers."""
    family = FAMILIES[name]
    stacked, reference = live(name), live(name)
    edits = [KeepHeads(UNEVEN), KeepLayers([0, 2, 3], of=4), KeepNeurons(NEURONS), KeepHeads({0: [3], 3: [0, 2]})]
    fitted = fit(edits, family)
    for edit in fitted:
        apply_edits(stacked, [edit], family)
    apply_edits(reference, fitted[1:2], family)
    heads = keep_masks({**fitted[0].heads, **fitted[3].heads}, 4)[[0, 2, 3]]
    neurons = keep_masks(fitted[2].neurons, neurons_of(reference))[[0, 2, 3]]
    with mask_heads(reference, family, heads), mask_neurons(reference, family, neurons):
        expected = logits(reference)
    torch.testing.assert_close(logits(stacked), expected, atol=1e-5, rtol=0)


@of_every_kind
def test_edits_at_once_equal_edits_one_by_one(name: str, live: Live) -> None:
    family = FAMILIES[name]
    edits = fit([KeepHeads({1: [0, 2, 3]}), KeepHeads({1: [2, 3]}), KeepLayers([1, 2], of=4)], family)
    at_once, stepwise = live(name), live(name)
    apply_edits(at_once, edits, family)
    for edit in edits:
        apply_edits(stepwise, [edit], family)
    torch.testing.assert_close(logits(at_once), logits(stepwise), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["bert", "mpnet"])
def test_uneven_heads_survive_tracing_and_copying(name: str, live: Live) -> None:
    model = live(name)
    apply_edits(model, [KeepHeads(UNEVEN)], FAMILIES[name])
    expected = logits(model)
    inputs = batch()
    forward = Logits(copy.deepcopy(model))
    traced = torch.jit.trace(forward, tuple(value[:, :3] for value in inputs.values()))
    torch.testing.assert_close(traced(*inputs.values()), expected, atol=1e-5, rtol=0)


class Logits(torch.nn.Module):
    """The model with positional inputs and one output, as a tracer wants it."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


@of_every_kind
def test_check_masking_passes_where_masks_work(name: str, live: Live) -> None:
    check_masking(live(name), FAMILIES[name], batch(name in OF_IMAGES), [4] * 4)


@of_every_kind
def test_check_masking_stops_where_a_layer_ignores_its_heads(name: str, live: Live) -> None:
    model, family = live(name), FAMILIES[name]
    at = 0 if family.shares_layers else 1
    torch.nn.init.zeros_(blocks_of(model, family)[at].o.get_parameter("weight"))
    with pytest.raises(AssayError, match=rf"\.{at}\..*does not change the logits"):
        check_masking(model, family, batch(name in OF_IMAGES), [4] * 4)


def test_mask_gradients_are_those_of_finite_differences(live: Live) -> None:
    model, family = live("bert").double(), FAMILIES["bert"]
    masks = torch.ones(4, 4, dtype=torch.float64, requires_grad=True)

    def loss(values: torch.Tensor) -> torch.Tensor:
        with mask_heads(model, family, values):
            return model(**batch()).logits.square().sum()

    (gradient,) = torch.autograd.grad(loss(masks), masks)
    step = torch.zeros(4, 4, dtype=torch.float64)
    step[2, 1] = 1e-5
    with torch.no_grad():
        difference = (loss(masks + step) - loss(masks - step)) / 2e-5
    assert gradient[2, 1] == pytest.approx(difference.item(), rel=1e-5)
    assert (gradient != 0).all()


def test_a_mask_for_each_row_acts_on_that_row(live: Live) -> None:
    model, family = live("bert"), FAMILIES["bert"]
    plain = logits(model)
    masks = torch.ones(4, 2, 4)
    masks[:, 1] = 0
    with mask_heads(model, family, masks):
        masked = logits(model)
    torch.testing.assert_close(masked[0], plain[0])
    assert (masked[1] - plain[1]).abs().max() > 1e-2
    torch.testing.assert_close(logits(model), plain)  # the hooks are gone


@pytest.mark.parametrize("size", [2, 3, 8])  # 2 and 8 divide the width, but are no number of heads
def test_masks_of_the_wrong_size_are_refused(size: int, live: Live) -> None:
    model, family = live("bert"), FAMILIES["bert"]
    with (
        pytest.raises(AssayError, match=rf"\[{size}, {size}, {size}, {size}\] by layer, the model has \[4, 4, 4, 4\]"),
        mask_heads(model, family, torch.ones(4, size)),
    ):
        pass


def test_cutting_keeps_dtype_bias_and_frozen_parameters(live: Live) -> None:
    model, family = live("bert").to(torch.float16), FAMILIES["bert"]
    query = model.get_submodule("bert.encoder.layer.0.attention.self.query")
    query.requires_grad_(False)
    expected = query.bias[8:].clone()
    apply_edits(model, [KeepHeads(UNEVEN)], family)
    assert query.weight.dtype == torch.float16
    assert query.weight.shape == (24, 32)
    assert torch.equal(query.bias, expected)
    assert not query.weight.requires_grad
    assert model.get_submodule("bert.encoder.layer.0.attention.self.key").weight.requires_grad


def test_tied_embeddings_stay_tied() -> None:
    config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    model = AutoModelForMaskedLM.from_config(config)
    apply_edits(model, [KeepHeads({0: [1]}), KeepLayers([0], of=2)], FAMILIES["bert"])
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_an_edited_model_opened_some_other_way_is_refused(live: Live) -> None:
    model, family = live("bert"), FAMILIES["bert"]
    apply_edits(model, [KeepHeads(UNEVEN)], family)
    del model.layout
    with pytest.raises(AssayError, match=r"\(24, 48\), \(32, 48\), \(8, 48\).*config and edits say"):
        apply_edits(model, [KeepHeads({1: [0]})], family)


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([KeepHeads({1: []})], r"keep_heads: layer 1 would lose its last head; keep at least one of 0-3"),
        ([KeepHeads({1: [4]})], r"keep_heads: layer 1 has no head 4; present: 0-3"),
        ([KeepHeads({1: [0, 0]})], r"name one twice"),
        ([KeepHeads({7: [0]})], r"keep_heads: layer 7 is not in the model; present: 0, 1, 2, 3"),
        ([KeepHeads({1: [2]}), KeepHeads({1: [0]})], r"layer 1 has no head 0; present: 2"),
        ([KeepLayers([0, 2], of=4), KeepHeads({1: [0]})], r"layer 1 is not in the model; present: 0, 2"),
        ([KeepLayers([], of=4)], r"keep_layers: the model would lose its last layer"),
        ([KeepLayers([0], of=6)], r"made for a model of 6 layers, this one has 4"),
        ([KeepNeurons({0: []})], r"keep_neurons: layer 0 would lose its last neuron; keep at least one of 0-47"),
        ([KeepNeurons({0: [1, 48]})], r"layer 0 has no neuron 48; present: 0-47"),
    ],
)
def test_impossible_edits_are_refused_by_name_and_cut_nothing(live: Live, edits: list[Edit], message: str) -> None:
    model = live("bert")
    before = {name: value.shape for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message):
        apply_edits(model, edits, FAMILIES["bert"])
    assert {name: value.shape for name, value in model.state_dict().items()} == before


@pytest.mark.parametrize(
    "edit",
    [KeepHeads(UNEVEN), KeepLayers([3, 0], of=4), KeepNeurons({0: [0, 1, 2, 5, 7, 8], 3: [9], 1: [0, 2]})],
    ids=lambda edit: edit.kind,
)
def test_edits_survive_json(edit: Edit) -> None:
    assert edit_from_json(json.loads(json.dumps(edit.to_json()))) == edit


def test_neurons_are_compact_in_json() -> None:
    assert KeepNeurons({0: [*range(500), 502, *range(600, 3072)]}).to_json() == {
        "edit": "keep_neurons",
        "neurons": {"0": "0-499,502,600-3071"},
    }


@pytest.mark.parametrize(
    "data",
    [
        {"edit": "keep_tails"},
        {"edit": "keep_layers"},
        {"edit": "keep_neurons", "neurons": 3},
        {"edit": "keep_vocab", "tokens": "0-a", "of": 9},
    ],
)
def test_unreadable_edits_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"keep_tails|keep_layers|keep_neurons|keep_vocab"):
        edit_from_json(data)


def test_layout_follows_the_edits() -> None:
    config = {
        "model_type": "distilbert", "n_layers": 2, "n_heads": 4, "dim": 32, "hidden_dim": 6,
    }  # fmt: skip
    edits = [KeepHeads({3: [1, 2]}), KeepLayers([1, 3], of=4), KeepNeurons({1: [0, 5]})]
    layout = layout_of(config, [edit.to_json() for edit in edits])
    assert layout.head_dim == 8
    assert [layer.index for layer in layout.layers] == [1, 3]
    assert [layer.heads for layer in layout.layers] == [(0, 1, 2, 3), (1, 2)]
    assert [layer.neurons for layer in layout.layers] == [(0, 5), (0, 1, 2, 3, 4, 5)]


def test_layout_refuses_a_config_of_another_depth() -> None:
    config = {
        "model_type": "bert", "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32,
        "intermediate_size": 6,
    }  # fmt: skip
    with pytest.raises(InputError, match=r"num_hidden_layers: 3 in the config, 2 after the edits"):
        layout_of(config, [KeepLayers([1, 3], of=4).to_json()])


@pytest.mark.parametrize("size", [0, -1, "12", 1.5, None, True])
def test_layout_refuses_sizes_that_are_none(size: object) -> None:
    config = {"model_type": "bert", "num_hidden_layers": 3, "hidden_size": 32, "intermediate_size": 6}
    with pytest.raises(InputError, match=rf"config\.json: num_attention_heads {size!r}; sizes are whole numbers"):
        layout_of(config | {"num_attention_heads": size})


def test_an_unknown_family_says_what_to_add() -> None:
    with pytest.raises(
        InputError, match=r"'mamba'.*known: albert, bart, bert, .*add a Family .*assay/core/model/anatomy\.py"
    ):
        family_of("mamba")
