"""What 4.57 and 5 do differently ends up the same here, or in one line that says what to install."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from tiny_models import tiny_tokenizer
from tokenizers import normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from assay.core.artifact import open_source
from assay.core.errors import InputError
from assay.core.model import generations
from assay.core.model.generations import (
    dropped_settings,
    generation,
    mismatched_names,
    open_tokenizer,
    save_tokenizer,
    why_no_optimum,
    written_by_other,
)
from assay.core.model.load import load_module, load_tokenizer

TEXT = "The Film's Café, unbelievably new"


def test_the_generation_is_that_of_the_library() -> None:
    assert str(generation()) == transformers.__version__[0]


@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ({"optimum": "2.1.0", "optimum-onnx": "0.1.0", "transformers": "4.57.6"}, None),
        ({"optimum": "2.1.0", "transformers": "4.57.6"}, "optimum-onnx not installed"),
        ({"transformers": "5.24.0"}, "optimum and optimum-onnx not installed"),
        (
            {"optimum": "2.1.0", "optimum-onnx": "0.1.0", "transformers": "5.24.0"},
            "optimum-onnx 0.1.0 needs transformers<4.58.0,>=4.36, 5.24.0 is installed",
        ),
    ],
    ids=["fits", "half", "absent", "conflict"],
)
def test_optimum_is_used_where_its_requirements_hold(
    versions: dict[str, str], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "version_of", versions.get)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["torch", "transformers<4.58.0,>=4.36"])
    assert why_no_optimum() == reason


@pytest.mark.parametrize(
    ("installed", "config", "says"),
    [
        (
            "4.57.6",
            {"transformers_version": "5.24.0"},
            "transformers 5.24.0 wrote it, 4.57.6 is installed: pip install",
        ),
        ("5.24.0", {"transformers_version": "4.30.2"}, "pip install 'transformers>=4.57.6,<5'"),
        ("5.24.0", {"transformers_version": "5.0.0"}, ""),
        ("4.57.6", {"transformers_version": None}, ""),
        ("4.57.6", {}, ""),
    ],
)
def test_the_other_writer_is_named_with_what_to_install(
    installed: str, config: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "version_of", lambda name: installed)
    assert says in written_by_other(config)
    assert bool(written_by_other(config)) == bool(says)


@pytest.mark.parametrize("setting", [{"position_embedding_type": "relative_key"}, {"pruned_heads": {"0": [1]}}])
def test_settings_that_5_passes_over_are_refused_there(
    setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    harmless = {"position_embedding_type": "absolute", "pruned_heads": {}}
    for installed, dropped in ((4, []), (5, [f"{name}: {value}" for name, value in setting.items()])):
        monkeypatch.setattr(generations, "generation", lambda installed=installed: installed)
        assert dropped_settings(harmless | setting) == dropped
        assert dropped_settings(harmless) == []


@pytest.mark.skipif(generation() < 5, reason="4.57 builds the model that the setting asks for")
def test_a_model_that_would_be_another_is_not_loaded(tiny_folder: Callable[..., Path]) -> None:
    folder = tiny_folder("bert", layers=1)
    load_module(open_source(folder, "text-classification"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"position_embedding_type": "relative_key", "transformers_version": "4.57.6"}
    (folder / "config.json").write_text(json.dumps(config))
    said = (
        r"config\.json: transformers 5\S* ignores position_embedding_type: relative_key; transformers 4\.57\.6 wrote it"
    )
    with pytest.raises(InputError, match=said):
        load_module(open_source(folder, "text-classification"))


@pytest.mark.parametrize("keys", [["a", "b"], {("a", (2, 3), (4, 5)), ("b", (1,), (2,))}])
def test_names_of_misshapen_parameters_come_in_two_forms(keys: Any) -> None:
    assert mismatched_names(keys) == {"a", "b"}


class TestTokenizer:
    """`tokenizer.json` says how texts are cut, whatever class the settings name."""

    @pytest.mark.parametrize(
        ("part", "value"),
        [
            ("normalizer", normalizers.Sequence([normalizers.Replace("film", "movie"), normalizers.Lowercase()])),
            ("pre_tokenizer", pre_tokenizers.WhitespaceSplit()),
            ("post_processor", processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 2)])),
        ],
    )
    def test_parts_that_no_class_knows_are_kept(self, part: str, value: Any, tmp_path: Path) -> None:
        plain, own = tiny_tokenizer("bert"), tiny_tokenizer("bert")
        setattr(own.backend_tokenizer, part, value)
        as_saved(own, tmp_path, "BertTokenizer")
        opened = open_tokenizer(tmp_path)
        assert opened(TEXT)["input_ids"] == own(TEXT)["input_ids"] != plain(TEXT)["input_ids"]
        assert opened.model_input_names == ["input_ids", "token_type_ids", "attention_mask"]
        again = save_and_open(opened, tmp_path / "again")
        assert again(TEXT)["input_ids"] == own(TEXT)["input_ids"]

    @pytest.mark.parametrize("named", ["BertTokenizer", "BertTokenizerFast"])
    def test_flags_in_the_settings_count(self, named: str, tmp_path: Path) -> None:
        as_saved(tiny_tokenizer("bert"), tmp_path, named, do_lower_case=False)
        opened = open_tokenizer(tmp_path)
        assert "[UNK]" in opened.convert_ids_to_tokens(opened("Good")["input_ids"])
        assert "good" in opened.convert_ids_to_tokens(opened("good")["input_ids"])

    @pytest.mark.parametrize("named", ["TokenizersBackend", "PreTrainedTokenizerFast"])
    @pytest.mark.parametrize("prefix", [True, False])
    def test_the_generic_class_leaves_the_first_space_to_the_file(
        self, named: str, prefix: bool, tmp_path: Path
    ) -> None:
        tokenizer = tiny_tokenizer("roberta")
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        as_saved(tokenizer, tmp_path, named)
        opened = open_tokenizer(tmp_path)
        assert opened("good")["input_ids"] == tokenizer("good")["input_ids"]
        assert (opened.convert_ids_to_tokens(opened("good")["input_ids"])[1][0] == "Ġ") == prefix

    def test_additional_tokens_are_read_as_either_generation_lists_them(self, tmp_path: Path) -> None:
        tokenizer = tiny_tokenizer("bert")
        tokenizer.add_special_tokens({"additional_special_tokens": ["<e1>"]})
        for index, settings in enumerate(({"extra_special_tokens": ["<e1>"]}, {"additional_special_tokens": ["<e1>"]})):
            folder = tmp_path / str(index)
            as_saved(tokenizer, folder, "BertTokenizer", **settings)
            opened = open_tokenizer(folder)
            assert opened.convert_tokens_to_ids("<e1>") in opened.all_special_ids
            assert opened("<e1> film")["input_ids"] == tokenizer("<e1> film")["input_ids"]

    def test_what_is_saved_is_in_words_that_both_read(self, tmp_path: Path) -> None:
        tokenizer = tiny_tokenizer("bert")
        tokenizer.add_special_tokens({"additional_special_tokens": ["<e1>"]})
        opened = save_and_open(tokenizer, tmp_path)
        settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
        assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
        assert settings["additional_special_tokens"] == ["<e1>"]
        assert not settings.get("extra_special_tokens")
        assert opened("<e1> film")["input_ids"] == tokenizer("<e1> film")["input_ids"]

    def test_no_vocabulary_is_invented(self, tmp_path: Path) -> None:
        as_saved(tiny_tokenizer("bert"), tmp_path, "BertTokenizer")
        (tmp_path / "tokenizer.json").unlink()
        with pytest.raises(OSError, match=r"none of tokenizer\.json, vocab\.txt"):
            open_tokenizer(tmp_path)

    def test_a_file_of_a_later_kind_is_told_with_its_writer(
        self, tiny_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tiny_folder("bert", layers=1)
        for name, changes in {
            "tokenizer.json": {"normalizer": {"type": "NotYetInvented"}},
            "config.json": {"transformers_version": f"{9 - generation()}.9.9"},
        }.items():
            data = json.loads((folder / name).read_text())
            (folder / name).write_text(json.dumps(data | changes))
        other = (
            r"no usable tokenizer \(.*; transformers [45]\.9\.9 wrote it, .* is installed: pip install 'transformers>="
        )
        with pytest.raises(InputError, match=other):
            load_tokenizer(open_source(folder, "text-classification"))


def as_saved(tokenizer: PreTrainedTokenizerFast, folder: Path, named: str, **settings: Any) -> None:
    """The folder as another program left it: the file as it is in memory, and settings that name a class."""
    tokenizer.save_pretrained(folder)
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    path = folder / "tokenizer_config.json"
    saved = json.loads(path.read_text())
    for name in ("extra_special_tokens", "additional_special_tokens"):
        saved.pop(name, None)
    path.write_text(json.dumps(saved | {"tokenizer_class": named} | settings))


def save_and_open(tokenizer: PreTrainedTokenizerBase, folder: Path) -> PreTrainedTokenizerBase:
    save_tokenizer(tokenizer, folder)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    return open_tokenizer(folder)
