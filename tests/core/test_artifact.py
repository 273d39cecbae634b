"""A model folder says what it is, and its key follows its content and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.artifact import WEIGHTS, Artifact, open_finished, open_source, read_config
from assay.core.errors import InputError
from assay.core.manifest import Manifest, hash_folder

CONFIG = {"model_type": "bert", "id2label": {str(n): f"class {n}" for n in reversed(range(12))}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source folder with the files that count; the weights are no real ones."""
    path = tmp_path / "model"
    path.mkdir()
    for name in (WEIGHTS, "tokenizer.json", "vocab.txt", "vocab.json"):
        (path / name).write_text(name)
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


def key(folder: Path) -> str:
    return open_source(folder, "text-classification").key


def test_labels_come_in_the_order_of_the_logits(folder: Path) -> None:
    """By number: as text, "10" would stand before "2"."""
    source = open_source(folder, "text-classification")
    assert source.labels == tuple(f"class {n}" for n in range(12))
    assert (source.format, source.family, source.edits) == ("torch", "bert", [])


def test_a_model_without_class_names_has_no_labels(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert"}')
    assert open_source(folder, "text-classification").labels == ()


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json", "vocab.txt", "vocab.json"])
def test_the_key_follows_every_file_that_counts(name: str, folder: Path) -> None:
    before = key(folder)
    (folder / name).write_text((folder / name).read_text() + " ")
    assert key(folder) != before


def test_the_key_does_not_follow_the_place_nor_what_does_not_count(folder: Path) -> None:
    before = key(folder)
    (folder / "README.md").write_text("A model.")
    shutil.move(folder, folder.with_name("elsewhere"))
    assert key(folder.with_name("elsewhere")) == before


def test_the_size_is_that_of_all_that_is_shipped(folder: Path) -> None:
    source = open_source(folder, "text-classification")
    before = source.size_bytes
    assert before == sum(path.stat().st_size for path in folder.iterdir())
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("12345")
    (folder / "manifest.json").write_text("not shipped")
    assert source.size_bytes == before + 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"model: no config\.json; is it a model folder\?"),
        ("{", r"config\.json: not valid JSON \(Expecting"),
        ("[]", r"config\.json: no model_type; is it the config of a transformer\?"),
        ("{}", r"config\.json: no model_type"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(content: str | None, message: str, folder: Path) -> None:
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(InputError, match=message):
        read_config(folder)


def test_a_folder_without_safetensors_is_refused_and_its_files_listed(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    with pytest.raises(
        InputError, match=r"no model\.safetensors \(safetensors only\); found config\.json, pytorch_model"
    ):
        open_source(folder, "text-classification")


def test_a_finished_folder_is_what_its_manifest_says(folder: Path) -> None:
    facts: dict[str, Any] = {"key": "k1", "step": "quantize", "settings": {}, "parent": None, "format": "onnx"}
    edits = [{"edit": "keep_layers", "keep": [0], "of": 2}]
    manifest = Manifest(**facts, task="text-regression", family="bert", seed=1, edits=edits, files=hash_folder(folder))
    manifest.write(folder)
    assert open_finished(folder) == Artifact(folder, "k1", "onnx", "text-regression", "bert", edits)


def test_an_unfinished_folder_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"model: no manifest\.json; the step that writes it has not finished"):
        open_finished(folder)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often a config was read from disk."""
    count = 0
    original = Path.read_text

    def counted(path: Path, *args: Any, **settings: Any) -> str:
        nonlocal count
        count += path.name == "config.json"
        return original(path, *args, **settings)

    monkeypatch.setattr(Path, "read_text", counted)
    return lambda: count


def test_the_config_is_read_once(folder: Path, reads: Callable[[], int]) -> None:
    artifact = Artifact(folder, "k", "torch", "text-classification", "bert")
    assert artifact.labels == artifact.labels
    assert artifact.config["model_type"] == "bert"
    assert reads() == 1
