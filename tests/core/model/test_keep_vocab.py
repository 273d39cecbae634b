"""A cut vocabulary: the tokens that stay give the same logits to the bit, in every family, stacked and loaded again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from by_family import KINDS, families
from edits_to_fit import fit
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel

from assay.core.artifact import Artifact, open_finished
from assay.core.errors import InputError
from assay.core.manifest import Manifest, hash_folder
from assay.core.model.anatomy import FAMILIES, family_of
from assay.core.model.edits import (
    Edit,
    KeepHeads,
    KeepLayers,
    KeepNeurons,
    KeepVocab,
    apply_edits,
    edit_from_json,
    layout_of,
)  # fmt: skip
from assay.core.model.load import load_module, load_tokenizer, save_module
from assay.core.model.ranges import from_ranges, to_ranges

MakeArtifact = Callable[..., Artifact]
BOTH = [0, 1, 2, 3, *range(10, 60, 2), 61, 62, 63]  # the special tokens of every tiny tokenizer, and some words
LAST = [0, 1, 2, 3, 12, 20, 58, 63]
IDS = torch.tensor([[2, 20, 58, 12, 63, 3], [2, 63, 3, 1, 1, 1]])  # made of tokens in LAST
MASK = (torch.arange(6) < torch.tensor([[6], [3]])).long()
CUTS: list[Edit] = [
    KeepHeads({0: [1, 2, 3], 2: [0]}), KeepLayers([0, 2, 3], of=4), KeepNeurons({3: [5, 6, 40]}),
]  # fmt: skip


@torch.no_grad()
def logits(model: PreTrainedModel, kept: list[int] | None = None) -> torch.Tensor:
    """Of the same tokens by their original ids, or by the ids they have where only `kept` ones are left."""
    ids = IDS if kept is None else torch.tensor([[kept.index(token) for token in row] for row in IDS.tolist()])
    return model(input_ids=ids, attention_mask=MASK).logits


def size(artifact: Artifact) -> int:
    return artifact.config["vocab_size"]


def finished(model: PreTrainedModel, source: Artifact, edits: list[Edit], out: Path) -> Artifact:
    save_module(model, out, load_tokenizer(source))
    told = [edit.to_json() for edit in edits]
    manifest = Manifest("k", "cut", {}, None, "torch", source.task, source.family, 0, told, files=hash_folder(out))
    manifest.write(out)
    return open_finished(out)


@pytest.mark.parametrize("family", families(*KINDS))
def test_kept_tokens_keep_their_logits_stacked_and_loaded(
    family: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family)
    plain, model = load_module(source), load_module(source)
    cuts = fit(CUTS, family_of(family))
    apply_edits(plain, cuts, family_of(family))
    edits = [cuts[0], KeepVocab(BOTH, of=size(source)), *cuts[1:], KeepVocab(LAST, of=len(BOTH))]
    for edit in edits:
        apply_edits(model, [edit], family_of(family))
    expected = logits(plain)
    assert torch.equal(logits(model, LAST), expected)
    assert not torch.equal(logits(model, LAST[:4] + LAST[:3:-1]), expected)

    saved = finished(model, source, edits, tmp_path / "saved")
    loaded = load_module(saved)
    assert torch.equal(logits(loaded, LAST), expected)
    embedding = loaded.get_submodule(family_of(family).word_embeddings)
    assert (embedding.num_embeddings, loaded.config.vocab_size) == (8, 8)
    assert loaded.config.pad_token_id == load_tokenizer(source).pad_token_id
    assert embedding.padding_idx in (None, loaded.config.pad_token_id)
    layout = layout_of(saved.config, saved.edits)
    assert layout.tokens == tuple(LAST)
    assert [layer.index for layer in layout.layers] == [0, 2, 3]


def test_ids_in_the_config_follow_and_come_back_for_the_replay(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert", layers=1)
    named = AutoConfig.from_pretrained(source.path)
    named.pad_token_id, named.bos_token_id, named.eos_token_id, named.decoder_start_token_id = 5, 7, [7, 9], -1
    model = load_module(source)
    model.config = named
    model.bert.embeddings.word_embeddings.padding_idx = 5
    edits = [KeepVocab(range(3, size(source)), of=size(source)), KeepVocab([4, 5, 7, 9, 20], of=size(source) - 3)]
    apply_edits(model, edits, FAMILIES["bert"])
    saved = finished(model, source, edits, tmp_path / "saved")
    for config in (saved.config, load_module(saved).config.to_dict()):
        names = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
        assert [config[name] for name in names] == [1, 2, [2, 3], -1]
    assert load_module(saved).bert.embeddings.word_embeddings.padding_idx == 1


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_a_decoder_and_its_bias_are_cut_too_and_stay_tied(family: str, tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact(family, layers=1)
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(source.path)).eval()
    with torch.no_grad():
        model.get_output_embeddings().bias.normal_()
    before = logits(model)[..., LAST]
    apply_edits(model, [KeepVocab(LAST, of=size(source))], FAMILIES[family])
    torch.testing.assert_close(logits(model, LAST), before, atol=1e-5, rtol=0)
    decoder = model.get_output_embeddings()
    assert decoder.weight is model.get_input_embeddings().weight
    assert (decoder.out_features, *decoder.bias.shape) == (8, 8)
    assert not [name for name, value in model.named_parameters() if size(source) in value.shape]


@pytest.mark.parametrize(
    ("family", "edits", "message"),
    [
        ("bert", [KeepVocab([], of=248)], r"keep_vocab: the model would lose its last token"),
        ("bert", [KeepVocab([0, 2, 3, 248], of=248)], r"has no token 248; present: 0-247"),
        ("bert", [KeepVocab([0, 2, 3], of=251)], r"made for a model of 251 tokens, this one has 248"),
        ("bert", [KeepVocab(BOTH, of=248), KeepVocab([0, 11], of=len(BOTH))], r"has no token 11; present: 0-3,10,12"),
        ("bert", [KeepVocab([2, 3, 9], of=248)], r"pad_token_id of the config is 0, which would go"),
        ("mpnet", [KeepVocab([0, 2, 3], of=248)], r"pad_token_id of the config is 1, which would go"),
    ],
)
def test_impossible_cuts_are_refused_and_cut_nothing(
    family: str, edits: list[Edit], message: str, tiny_artifact: MakeArtifact
) -> None:
    model = load_module(tiny_artifact(family, layers=1))
    expected = logits(model)
    with pytest.raises(InputError, match=message):
        apply_edits(model, edits, FAMILIES[family])
    assert torch.equal(logits(model), expected)


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "mpnet"])
def test_a_padding_id_that_positions_are_counted_from_stays_where_it_is(
    family: str, tiny_artifact: MakeArtifact
) -> None:
    source = tiny_artifact(family, layers=1)
    model = load_module(source)
    model.config.bos_token_id = None  # nothing else keeps token 0
    with pytest.raises(InputError, match=r"counts positions from its padding id, so tokens 0-1 must stay; 0-1 would"):
        apply_edits(model, [KeepVocab([1, 2, 3, 9], of=size(source))], FAMILIES[family])


def test_a_config_of_another_vocabulary_is_refused(tiny_artifact: MakeArtifact) -> None:
    config = tiny_artifact("bert").config
    edit = KeepVocab(LAST, of=config["vocab_size"]).to_json()
    with pytest.raises(InputError, match=r"vocab_size: 248 in the config, 8 after the edits"):
        layout_of(config, [edit])
    assert layout_of(config | {"vocab_size": 8}, [edit]).tokens == tuple(LAST)


def test_the_edit_is_compact_and_survives_json() -> None:
    edit = KeepVocab([*range(5, 12000), 3, 30000], of=30522)
    assert edit.to_json() == {"edit": "keep_vocab", "tokens": "3,5-11999,30000", "of": 30522}
    assert edit_from_json(json.loads(json.dumps(edit.to_json()))) == edit


@pytest.mark.parametrize("numbers", [[0], [7, 8], [0, 2, 3, 4, 9], list(range(1000))], ids=len)
def test_ranges_give_the_numbers_back(numbers: list[int]) -> None:
    assert from_ranges(to_ranges(numbers)) == numbers
