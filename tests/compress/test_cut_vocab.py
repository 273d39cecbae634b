"""Fewer tokens, the same answers: for every kind of tokenizer, on disk, in ONNX, and stacked with other cuts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_jobs import carry_out, job_data, planted_rows, step_of
from tiny_models import write_tiny
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from assay.core.artifact import Artifact, open_source
from assay.core.errors import InputError, SettingError
from assay.core.manifest import Manifest
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import KeepLayers, apply_edits, layout_of
from assay.core.model.load import load_module, load_tokenizer
from assay.core.model.predict import TorchPredictor, open_predictor
from compress.steps.cut_vocab import CutVocab

MakeArtifact = Callable[..., Artifact]
Chain = dict[str, Artifact]
KINDS = ("bert", "roberta", "xlm-roberta")  # WordPiece, byte-level BPE, Unigram
TEXTS = [*planted_rows(48).texts, ""]
STRANGE = ["terrible, boring acting", "🎬 WONDERFUL", "zq"]


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Chain]:
    """A family's model with uneven heads before the cut, after it, and its graph; made once."""
    made: dict[str, Chain] = {}

    def make(family: str) -> Chain:
        if family not in made:
            folder = tmp_path_factory.mktemp(family)
            write_tiny(folder / "source", family, layers=2)
            source = open_source(folder / "source", "text-classification")
            before = carry_out(folder, source, [("prune_heads", {"remove": {0: [1]}})])
            after = carry_out(folder, before, [("cut_vocab", {})])
            graph = carry_out(folder, after, [("export_onnx", {})])
            made[family] = {"before": before, "after": after, "graph": graph}
        return made[family]

    return make


def facts(artifact: Artifact) -> dict:
    manifest = Manifest.read(artifact.path)
    assert manifest is not None
    return manifest.facts


@pytest.mark.parametrize("family", KINDS)
def test_texts_of_kept_tokens_get_the_same_logits_in_torch_and_onnx(
    family: str, chains: Callable[[str], Chain]
) -> None:
    before, after, graph = chains(family).values()
    expected = open_predictor(before, 32).logits(TEXTS)
    assert (open_predictor(after, 32).logits(TEXTS) == expected).all()
    assert open_predictor(graph, 32).logits(TEXTS) == pytest.approx(expected, abs=1e-4)
    assert (open_predictor(after, 32).logits(STRANGE) != open_predictor(before, 32).logits(STRANGE)).any()
    assert open_predictor(graph, 32).logits(STRANGE) == pytest.approx(
        open_predictor(after, 32).logits(STRANGE), abs=1e-4
    )


@pytest.mark.parametrize("family", KINDS)
def test_facts_say_what_went_and_what_is_covered(family: str, chains: Callable[[str], Chain]) -> None:
    before, after, _ = chains(family).values()
    told = facts(after)
    sizes = [before.config["vocab_size"], after.config["vocab_size"]]
    assert [told["tokens_before"], told["tokens_after"]] == sizes
    assert sizes[1] < sizes[0]
    assert told["bytes_saved"] == (sizes[0] - sizes[1]) * 32 * 4
    assert told["coverage_train"] == told["coverage"] == 1
    assert told["unknown_before"] == told["unknown_after"] == 0
    assert after.size_bytes < before.size_bytes - told["bytes_saved"]


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("place", ["after", "graph"])
def test_the_folder_opens_anywhere_with_the_same_ids(family: str, place: str, chains: Callable[[str], Chain]) -> None:
    artifact = chains(family)[place]
    tokenizer = AutoTokenizer.from_pretrained(artifact.path)
    plain = Tokenizer.from_file(str(artifact.path / "tokenizer.json"))
    assert tokenizer.get_vocab() == plain.get_vocab()
    assert sorted(tokenizer.get_vocab().values()) == list(range(artifact.config["vocab_size"]))
    ours = {"pad": tokenizer.pad_token_id, "bos": tokenizer.cls_token_id, "eos": tokenizer.sep_token_id}
    assert {name: artifact.config[f"{name}_token_id"] for name in ours} == ours
    for text in (*TEXTS, *STRANGE):
        assert tokenizer(text)["input_ids"] == plain.encode(text).ids


@pytest.mark.parametrize(
    ("family", "name", "files"),
    [
        ("bert", "BertTokenizer", ["vocab.txt"]),
        ("roberta", "RobertaTokenizer", ["vocab.json", "merges.txt"]),
        ("xlm-roberta", "XLMRobertaTokenizer", ["sentencepiece.bpe.model"]),
    ],
)
def test_no_file_of_another_format_contradicts_the_cut(
    family: str, name: str, files: list[str], tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tiny_folder(family, layers=2)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"tokenizer_class": name}))
    for file in files:
        (folder / file).write_text("what was there before the cut")
    source = open_source(folder, "text-classification")
    cut = carry_out(tmp_path, source, [("cut_vocab", {})])
    later = carry_out(tmp_path, cut, [("prune_layers", {"keep": 1})])
    for artifact in (cut, later):
        vocabulary = load_tokenizer(artifact).get_vocab()
        in_order = sorted(vocabulary, key=vocabulary.__getitem__)
        assert len(in_order) == artifact.config["vocab_size"]
        assert (open_predictor(artifact, 32).logits(STRANGE)).shape == (3, 2)
        assert _other_vocabulary(artifact.path) in (None, in_order)
    assert (open_predictor(cut, 32).logits(TEXTS) == open_predictor(source, 32).logits(TEXTS)).all()


def _other_vocabulary(folder: Path) -> list[str] | None:
    """The tokens, by id, of a vocabulary that is not tokenizer.json; None where the folder holds none."""
    assert not list(folder.glob("*.model"))
    if (folder / "vocab.txt").exists():
        return (folder / "vocab.txt").read_text().splitlines()
    if (folder / "vocab.json").exists():
        vocabulary = json.loads((folder / "vocab.json").read_text())
        return sorted(vocabulary, key=vocabulary.__getitem__)
    return None


def test_cuts_stack_and_name_original_tokens(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert", layers=3)
    first, fewer = job_data(), job_data(train=planted_rows(4, seed=3))
    once = carry_out(tmp_path, source, [("cut_vocab", {}), ("prune_layers", {"layers": [0, 2]})], first)
    twice = carry_out(tmp_path, once, [("cut_vocab", {}), ("prune_heads", {"remove": {2: [0]}})], fewer)
    kept = [edit for edit in twice.edits if edit["edit"] == "keep_vocab"]
    assert [edit["of"] for edit in kept] == [source.config["vocab_size"], once.config["vocab_size"]]
    tokens = layout_of(twice.config, twice.edits).tokens
    names = load_tokenizer(source).convert_ids_to_tokens(list(tokens))
    assert names == load_tokenizer(twice).convert_ids_to_tokens(list(range(len(tokens))))
    reference = TorchPredictor(carry_out(tmp_path, source, [("prune_heads", {"remove": {2: [0]}})]), 32)
    apply_edits(reference.module, [KeepLayers([0, 2], of=3)], FAMILIES["bert"])
    texts = fewer.train.texts
    assert (open_predictor(twice, 32).logits(texts) == reference.logits(texts)).all()


def test_held_out_texts_have_no_say(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    held_out = replace(planted_rows(4, seed=1), texts=["terrible acting", "boring terrible", "a", "the plot"])
    data = replace(job_data(), validation=held_out, test=held_out)
    source = tiny_artifact("bert", layers=1)
    cut = carry_out(tmp_path, source, [("cut_vocab", {})], data)
    assert "terrible" not in load_tokenizer(cut).get_vocab()
    told = facts(cut)
    # of 7 tokens `a`, `the` and `plot` stay; b and g stand in no training text: boring is unknown, and so on
    assert (told["coverage_train"], told["coverage"]) == (1, pytest.approx(3 / 7))
    assert told["unknown_before"] == 0
    assert 0 < told["unknown_after"] < 1
    whole = carry_out(tmp_path, source, [("cut_vocab", {"alphabet": "all"})], data)
    assert facts(whole)["unknown_after"] == 0
    assert facts(whole)["tokens_after"] > told["tokens_after"]


def test_rare_tokens_go_and_there_is_a_limit(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert", layers=1)
    data = job_data(train=replace(planted_rows(4), texts=["great great movie", "great movie", "great plot", "awful"]))
    variants = [{}, {"min_count": 2}, {"max_tokens": facts_of(source, tmp_path, data) - 3}]
    full, frequent, limited = (
        set(load_tokenizer(carry_out(tmp_path, source, [("cut_vocab", settings)], data)).get_vocab())
        for settings in variants
    )
    assert full - frequent == {"plot", "awful"}
    assert full - limited == {"movie", "plot", "awful"}
    with pytest.raises(SettingError, match=r"cut_vocab\.max_tokens: 3 is too few: \d\d tokens are special or alphabet"):
        carry_out(tmp_path, source, [("cut_vocab", {"max_tokens": 3})], data)


def facts_of(source: Artifact, folder: Path, data: object) -> int:
    return facts(carry_out(folder / "whole", source, [("cut_vocab", {})], data))["tokens_after"]  # type: ignore[arg-type]


def test_lines_of_files_count_as_texts(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source, lines = tiny_artifact("bert", layers=1), tmp_path / "more.txt"
    lines.write_text("terrible\n\nboring")
    with_lines = carry_out(tmp_path, source, [("cut_vocab", {"files": [str(lines)]})])
    assert {"terrible", "boring"} <= load_tokenizer(with_lines).get_vocab().keys()
    lines.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"more\.txt: cannot be read as lines of UTF-8 text"):
        carry_out(tmp_path, source, [("cut_vocab", {"files": [str(lines)]})])


def test_files_that_are_not_there_are_told_before_any_work(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    layout = layout_of(tiny_artifact(layers=1).config)
    for path, message in ((tmp_path / "no.txt", r"no\.txt: no such file"), (tmp_path, r"is a folder; name files")):
        with pytest.raises(SettingError, match=rf"cut_vocab\.files: .*{message}"):
            CutVocab(files=[str(path)]).check(layout, None)


def test_a_token_that_the_model_has_no_row_for_is_named(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = tiny_folder("bert", layers=1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["[NEW]"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(InputError, match=r"the model has 248 tokens, none for \[NEW\]"):
        carry_out(tmp_path, open_source(folder, "text-classification"), [("cut_vocab", {})])


def test_the_uncut_teacher_teaches_by_its_answers_only(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    teacher = tiny_artifact("bert", layers=1)
    student = carry_out(tmp_path, teacher, [("cut_vocab", {})])
    brief = {"epochs": 0.5, "batch_size": 8}
    taught = carry_out(tmp_path, student, [("distil", brief)], teacher=teacher)
    assert taught.edits == student.edits
    assert load_module(taught).config.vocab_size == facts(student)["tokens_after"]
    message = r"distil\.hidden: student and teacher have different vocabularies; set hidden: 0, or cut"
    with pytest.raises(SettingError, match=message):
        carry_out(tmp_path, student, [("distil", brief | {"hidden": 1.0})], teacher=teacher)


def test_hidden_states_after_a_cut_are_refused_before_any_work(tiny_artifact: MakeArtifact) -> None:
    layout = layout_of(tiny_artifact("bert", layers=1).config)
    after = CutVocab().check(layout, layout)
    with pytest.raises(SettingError, match=r"distil\.hidden: student and teacher have different vocabularies"):
        step_of("distil", hidden=1.0).check(after, layout)
    assert step_of("distil", hidden=1.0).check(layout, layout) == layout
    assert step_of("distil").check(after, layout) == after
