"""Layers with one set of weights: one object, counted, trained and stored once, cut together or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_jobs import carry_out, planted_rows
from transformers import PreTrainedModel

from assay.core.artifact import WEIGHTS, Artifact
from assay.core.errors import InputError
from assay.core.model.ablate import Cut, logits_without
from assay.core.model.anatomy import FAMILIES
from assay.core.model.blocks import modules_of
from assay.core.model.change_states import change_states
from assay.core.model.edits import Edit, KeepHeads, KeepLayers, KeepNeurons, LowRank, ShareLayers, apply_edits
from assay.core.model.encoder import Encoder
from assay.core.model.load import load_module, load_tokenizer
from assay.core.model.masks import mask_heads
from assay.core.train import Schedule, train

MakeArtifact = Callable[..., Artifact]
BERT = FAMILIES["bert"]
PAIRS = ShareLayers([[0, 1], [2, 3]])
CROSSED = ShareLayers([[0, 2], [1, 3]])
IDS = torch.tensor([[2, 40, 41, 42, 43, 44, 3], [2, 50, 51, 3, 1, 1, 1]])
INPUTS = {"input_ids": IDS, "attention_mask": (torch.arange(7) < torch.tensor([[7], [4]])).long()}


@torch.no_grad()
def logits(model: PreTrainedModel) -> torch.Tensor:
    return model(**INPUTS).logits


def shared(source: Artifact, edit: Edit) -> PreTrainedModel:
    model = load_module(source)
    apply_edits(model, [edit], BERT)
    return model


@pytest.mark.parametrize("name", ["bert", "gpt2", "mpnet", "t5"])
def test_a_group_has_the_weights_of_its_first_layer(name: str, tiny_artifact: MakeArtifact) -> None:
    """The same logits as a model whose second layers hold copies."""
    source, family = tiny_artifact(name), FAMILIES[name]
    copied, model = load_module(source), load_module(source)
    plain, blocks = logits(model), modules_of(copied, family)
    for first, second in ((0, 1), (2, 3)):
        blocks[second].load_state_dict(blocks[first].state_dict(), strict=False)
    apply_edits(model, [PAIRS], family)
    torch.testing.assert_close(logits(model), logits(copied), atol=1e-6, rtol=0)
    assert (logits(model) - plain).abs().max() > 1e-2
    first, second, third, fourth = modules_of(model, family)
    assert first is second
    assert third is fourth
    assert first is not third


def test_parameters_are_counted_once(tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact("bert")
    layer = sum(each.numel() for each in modules_of(load_module(source), BERT)[0].parameters())
    assert load_module(source).num_parameters() - shared(source, PAIRS).num_parameters() == 2 * layer


def test_they_are_stored_once_and_are_one_object_after_loading(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert")
    saved = carry_out(tmp_path, source, [("share_layers", {"groups": [[1, 3]]})])
    stored = load_file(saved.path / WEIGHTS)
    assert not [name for name in stored if ".layer.3." in name]
    assert [name for name in stored if ".layer.1." in name]
    first, second, third, fourth = modules_of(load_module(saved), BERT)
    assert second is fourth
    with torch.no_grad():
        second.output.dense.weight[0, 0] = 7.0
    assert fourth.output.dense.weight[0, 0] == 7.0
    assert first is not third


def test_training_changes_one_set_and_a_resumed_training_is_the_same(
    tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source, rows = tiny_artifact("bert"), planted_rows(24)
    encoder, schedule = Encoder(load_tokenizer(source), 32), Schedule(epochs=2, learning_rate=1e-3, batch_size=8)

    def loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        inputs = {name: batch[name] for name in INPUTS}
        return torch.nn.functional.cross_entropy(model(**inputs).logits, batch["labels"])

    def trained(scratch: Path, stop_at: int = 0) -> dict[str, torch.Tensor]:
        def progress(done: int, total: int) -> None:
            if done == stop_at:
                raise KeyboardInterrupt

        model = shared(source, PAIRS)
        train(model, loss, encoder, rows.texts, rows.labels, schedule, 3, scratch, progress, lambda line: None, 0)
        assert modules_of(model, BERT)[0] is modules_of(model, BERT)[1]
        return model.state_dict()

    before, whole = shared(source, PAIRS).state_dict(), trained(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "stopped", stop_at=4)
    resumed = trained(tmp_path / "stopped")
    name = "bert.encoder.layer.{}.output.dense.weight"
    assert torch.equal(whole[name.format(0)], whole[name.format(1)])
    assert not torch.equal(whole[name.format(0)], before[name.format(0)])
    assert all(torch.equal(resumed[each], whole[each]) for each in whole)


@pytest.mark.parametrize("edit", [PAIRS, CROSSED, ShareLayers([[0, 1, 2, 3]])], ids=["pairs", "crossed", "all"])
def test_parts_of_one_layer_are_taken_out_of_that_layer_alone(edit: ShareLayers, tiny_artifact: MakeArtifact) -> None:
    model = shared(tiny_artifact("bert"), edit)
    plain, found = logits_without(
        model, BERT, INPUTS, [Cut(1, "heads", (2,)), Cut(2, "layer"), Cut(3, "neurons", (4,))]
    )
    masks = torch.ones(4, 4)
    masks[1, 2] = 0
    with mask_heads(model, BERT, masks):
        torch.testing.assert_close(found[0], logits(model), atol=1e-5, rtol=0)
    torch.testing.assert_close(plain, logits(model), atol=1e-5, rtol=0)
    blocks = modules_of(model, BERT)
    model.bert.encoder.layer = torch.nn.ModuleList([blocks[0], blocks[1], blocks[3]])
    torch.testing.assert_close(found[1], logits(model), atol=1e-5, rtol=0)


def test_states_are_changed_where_one_layer_hands_them_on(tiny_artifact: MakeArtifact) -> None:
    model, seen = shared(tiny_artifact("bert"), CROSSED), []
    with torch.no_grad():
        states = model(**INPUTS, output_hidden_states=True).hidden_states
    with change_states(model, BERT, 2, lambda each: seen.append(each) or each):  # type: ignore[func-returns-value]
        logits(model)
        logits(model)
    assert len(seen) == 2
    torch.testing.assert_close(seen[1], states[3])
    assert not torch.allclose(states[1], states[3])


def test_a_group_goes_on_without_its_first_layer(tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact("bert")
    one, other = shared(source, PAIRS), load_module(source)
    apply_edits(one, [KeepLayers([1, 3], of=4), KeepHeads({1: [0]})], BERT)
    apply_edits(other, [KeepLayers([0, 2], of=4), KeepHeads({0: [0]})], BERT)
    assert torch.equal(logits(one), logits(other))


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            [PAIRS, KeepHeads({0: [1]})],
            r"keep_heads: layers 0, 1 have the same weights, so all must keep the same heads",
        ),
        ([PAIRS, KeepNeurons({2: [1]})], r"layers 2, 3 have the same weights, so all must keep the same neurons"),
        ([KeepHeads({0: [1]}), PAIRS], r"share_layers: layers 0 and 1 differ in their heads"),
        ([LowRank({1: {"q": 3}}), PAIRS], r"share_layers: layers 0 and 1 differ in their ranks"),
        ([PAIRS, ShareLayers([[1, 2]])], r"layer 0 shares weights with one of \[1, 2\] already"),
        ([PAIRS, ShareLayers([[0, 1]])], r"a group needs layers of at least two sets of weights; got 0, 1"),
        ([ShareLayers([[0, 1], [1, 2]])], r"layer 1 is named twice; groups: \[0, 1\], \[1, 2\]"),
        ([ShareLayers([[0, 4]])], r"share_layers: layer 4 is not in the model; present: 0, 1, 2, 3"),
        ([ShareLayers([[]])], r"at least two sets of weights; got none"),
    ],
)
def test_what_cannot_share_is_refused_by_name(edits: list[Edit], message: str, tiny_artifact: MakeArtifact) -> None:
    with pytest.raises(InputError, match=message):
        apply_edits(load_module(tiny_artifact("bert")), edits, BERT)


def test_layers_of_two_stacks_do_not_share(tiny_artifact: MakeArtifact) -> None:
    with pytest.raises(InputError, match=r"layers 1 and 2 differ in their stack"):
        apply_edits(load_module(tiny_artifact("t5")), [ShareLayers([[1, 2]])], FAMILIES["t5"])


def test_groups_grow_into_one(tiny_artifact: MakeArtifact) -> None:
    model = shared(tiny_artifact("bert"), PAIRS)
    apply_edits(model, [ShareLayers([[0, 1, 2, 3]])], BERT)
    assert len({id(each) for each in modules_of(model, BERT)}) == 1
    assert model.layout.groups == [[0, 1, 2, 3]]
