"""What only decoders have: padding that must not move a token, no pad token, grouped queries, cross attention."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_jobs import BLANK
from transformers import AutoModelForCausalLM, GPT2Config

from assay.core.artifact import WEIGHTS, Artifact, open_source
from assay.core.errors import InputError
from assay.core.model.anatomy import FAMILIES
from assay.core.model.blocks import blocks_of
from assay.core.model.edits import KeepCrossHeads, KeepHeads, KeepLayers, apply_edits, layout_of
from assay.core.model.export import export
from assay.core.model.graph import as_onnx
from assay.core.model.linear import out_width
from assay.core.model.load import load_module, load_source, load_tokenizer, save_module
from assay.core.model.masks import mask_cross_heads
from assay.core.model.predict import OnnxPredictor, TorchPredictor

MakeArtifact = Callable[..., Artifact]
TEXTS = ["the film was", "a dull and slow story about a man and a woman", "great"]
CROSS = {2: [1, 3], 3: [0]}


@pytest.mark.parametrize("family", ["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def test_padding_on_any_side_or_none_gives_the_same_logits(
    family: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family)
    export(load_module(source), load_tokenizer(source), tmp_path)
    alone = np.concatenate([TorchPredictor(source, 32).logits([text]) for text in TEXTS])
    assert np.ptp(alone[:, 0]) > 0.01
    for side in ("left", "right"):
        for folder in (source.path, tmp_path):
            path = folder / "tokenizer_config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"padding_side": side}))
        for predictor in (TorchPredictor(source, 32), OnnxPredictor(as_onnx(source, tmp_path), 32)):
            assert predictor.logits(TEXTS, batch_size=3, pad_to=20) == pytest.approx(alone, abs=1e-5)


def test_one_pad_token_is_chosen_for_tokenizer_and_model(
    tiny_artifact: MakeArtifact, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tiny_artifact("gpt2", headless=True)
    assert "pad_token_id" not in {name for name, value in source.config.items() if value is not None}
    model, tokenizer = load_source(source, ("x", "y"), seed=1), load_tokenizer(source)
    assert "the tokenizer has no pad token; </s> pads" in caplog.text
    assert model.config.pad_token_id == tokenizer.pad_token_id == tokenizer.eos_token_id
    save_module(model, tmp_path, tokenizer)
    saved = open_source(tmp_path, "text-classification")
    assert saved.config["pad_token_id"] == load_tokenizer(saved).pad_token_id
    assert TorchPredictor(saved, 32).logits(TEXTS * 3, batch_size=8).shape == (9, 2)


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5", "bart"])
def test_a_blank_text_has_an_answer(family: str, tiny_artifact: MakeArtifact) -> None:
    logits = TorchPredictor(tiny_artifact(family), 32).logits([*BLANK, TEXTS[1]], batch_size=6)
    assert np.isfinite(logits).all()
    assert logits[0] == pytest.approx(TorchPredictor(tiny_artifact(family), 32).logits([""])[0], abs=1e-5)


@pytest.mark.parametrize(
    ("kept", "key_values", "repeats"),
    [([0, 1], 1, 2), ([0, 2], 2, 1), ([0, 1, 3], 2, 1), ([2], 1, 1), ([0, 1, 2, 3], 2, 2)],
)
def test_a_key_value_head_stays_while_a_query_uses_it(
    kept: list[int], key_values: int, repeats: int, tiny_artifact: MakeArtifact
) -> None:
    """Four query heads in two groups; where groups are left uneven, they are repeated by a hook."""
    model = load_module(tiny_artifact("llama"))
    apply_edits(model, [KeepHeads({1: kept})], FAMILIES["llama"])
    block = blocks_of(model, FAMILIES["llama"])[1]
    assert [out_width(part) for part in block.parts(block.stack.attention.kv)] == [key_values * 8] * 2
    assert block.part("self_attn").num_key_value_groups == repeats
    assert bool(block.part("self_attn.k_proj")._forward_hooks) == (kept == [0, 1, 3])


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_removed_cross_attention_heads_equal_masked_ones_and_load(
    family: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family)
    predictor = TorchPredictor(source, 32)
    plain = predictor.logits(TEXTS)
    masks = [torch.zeros(0)] * 2 + [torch.isin(torch.arange(4), torch.tensor(CROSS[layer])).float() for layer in (2, 3)]
    with mask_cross_heads(predictor.module, FAMILIES[family], masks):
        masked = predictor.logits(TEXTS)
    edits = [KeepCrossHeads(CROSS), KeepLayers([0, 2, 3], of=(2, 2)), KeepCrossHeads({2: [3]})]
    apply_edits(predictor.module, edits[:1], FAMILIES[family])
    assert abs(masked - plain).max() > 1e-3
    assert predictor.logits(TEXTS) == pytest.approx(masked, abs=1e-5)
    apply_edits(predictor.module, edits[1:], FAMILIES[family])
    save_module(predictor.module, tmp_path, predictor.encoder.tokenizer)
    saved = Artifact(tmp_path, "k", "torch", source.task, family, [edit.to_json() for edit in edits])
    assert [layer.cross for layer in layout_of(saved.config, saved.edits).layers] == [(), (3,), (0,)]
    assert TorchPredictor(saved, 32).logits(TEXTS) == pytest.approx(predictor.logits(TEXTS), abs=1e-5)


def test_a_decoder_cannot_lose_all_its_layers(tiny_artifact: MakeArtifact) -> None:
    with pytest.raises(InputError, match="encoder and decoder must keep at least one layer each"):
        apply_edits(load_module(tiny_artifact("t5")), [KeepLayers([0, 1], of=(2, 2))], FAMILIES["t5"])
    with pytest.raises(InputError, match=r"made for a model of 4 layers, this one has 2 \+ 2"):
        apply_edits(load_module(tiny_artifact("t5")), [KeepLayers([0, 2], of=4)], FAMILIES["t5"])


def test_a_tied_language_model_stays_tied_and_is_stored_once(tmp_path: Path) -> None:
    config = GPT2Config(vocab_size=90, n_embd=32, n_layer=2, n_head=4, n_inner=48, n_positions=64)
    model = AutoModelForCausalLM.from_config(config).eval()
    whole = sum(parameter.numel() for parameter in model.parameters())
    apply_edits(model, [KeepHeads({0: [1, 2, 3]})], FAMILIES["gpt2"])
    assert whole - sum(parameter.numel() for parameter in model.parameters()) == 3 * 8 * 33 + 8 * 32
    model.save_pretrained(tmp_path)
    assert sum(tensor.shape == (90, 32) for tensor in load_file(tmp_path / WEIGHTS).values()) == 1
    with torch.no_grad():
        model.get_input_embeddings().weight[5, 0] = 7.0
    assert model.get_output_embeddings().weight[5, 0] == 7.0


def test_layers_that_scale_by_their_number_cannot_go(tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact("gpt2")
    path = source.path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scale_attn_by_inverse_layer_idx": True}))
    model = load_module(open_source(source.path, "text-classification"))
    with pytest.raises(InputError, match="scale_attn_by_inverse_layer_idx"):
        apply_edits(model, [KeepLayers([0, 2], of=4)], FAMILIES["gpt2"])


def test_layers_of_shared_weights_lose_the_same_heads(tiny_artifact: MakeArtifact) -> None:
    model = load_module(tiny_artifact("albert"))
    with pytest.raises(InputError, match="layers 0, 1, 2, 3 have the same weights, so all must"):
        apply_edits(model, [KeepHeads({1: [0, 1]})], FAMILIES["albert"])
