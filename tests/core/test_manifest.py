"""A folder is done when its manifest says so and its files agree; what is written is whole or not there."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from assay.core.manifest import MANIFEST, Manifest, hash_file, hash_folder, is_done, key_of, write_atomic, write_json

DONE = Manifest(
    key="k1", step="finetune", settings={"epochs": 1.0}, parent="k0", format="torch", task="text-classification",
    family="bert", seed=13, edits=[{"edit": "keep_layers"}], facts={"steps": 3}, versions={"torch": "2"}, seconds=1.5,
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished folder of two files, one of them in a subfolder."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "weights").write_bytes(b"1234")
    (tmp_path / "sub" / "vocab.txt").write_text("a\nb\n")
    replace(DONE, files=hash_folder(tmp_path)).write(tmp_path)
    return tmp_path


def test_a_finished_folder_is_done_under_its_key_only(folder: Path) -> None:
    assert is_done(folder, "k1")
    assert not is_done(folder, "k2")


def test_a_manifest_reads_back_as_it_was_written(folder: Path) -> None:
    assert Manifest.read(folder) == replace(DONE, files=hash_folder(folder))


def test_files_that_changed_went_or_came_are_named(folder: Path) -> None:
    manifest = Manifest.read(folder)
    assert manifest is not None
    assert manifest.mismatches(folder) == []
    (folder / "weights").write_bytes(b"1235")
    (folder / "sub" / "vocab.txt").unlink()
    (folder / "stray").touch()
    assert manifest.mismatches(folder) == ["stray", "sub/vocab.txt", "weights"]
    assert not is_done(folder, "k1")


@pytest.mark.parametrize(
    "content",
    [None, b"", b'{"key": "k1", "step"', b"\xff\xfe\x00", b"[]", b'{"key": "k1"}', b'{"later_field": 1}'],
    ids=["none", "empty", "half", "binary", "list", "fields missing", "unknown field"],
)
def test_what_is_no_whole_manifest_is_none(content: bytes | None, folder: Path) -> None:
    (folder / MANIFEST).unlink()
    if content is not None:
        (folder / MANIFEST).write_bytes(content)
    assert Manifest.read(folder) is None
    assert not is_done(folder, "k1")


def test_a_folder_that_is_not_there_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not is_done(tmp_path / "nowhere", "k1")
    assert not is_done(tmp_path / "file", "k1")


def test_hashes_cover_all_files_but_the_manifest_of_the_folder_itself(folder: Path) -> None:
    (folder / "sub" / MANIFEST).write_text("{}")
    assert sorted(hash_folder(folder)) == ["sub/manifest.json", "sub/vocab.txt", "weights"]
    assert hash_file(folder / "weights") == "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4"


def test_keys_depend_on_content_and_order_of_parts_but_not_of_dicts() -> None:
    assert key_of("step", {"a": 1, "b": 2}) == key_of("step", {"b": 2, "a": 1})
    different = [
        key_of("a", "b"),
        key_of("b", "a"),
        key_of("ab"),
        key_of(["a", "b"]),
        key_of("a", None),
        key_of("a", 1.0),
    ]
    assert len(set(different)) == len(different)
    assert key_of("é", (1, 2)) == key_of("é", [1, 2])


def test_a_write_that_is_interrupted_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    write_atomic(path, "old")

    def killed(*names: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["run.json"]


def test_a_write_makes_folders_and_a_file_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.bin"
    write_atomic(path, b"\x00\xff")
    write_atomic(path, b"\x01")
    assert path.read_bytes() == b"\x01"
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"deep": [float("-inf")]}])
def test_json_has_no_infinite_numbers(value: object, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "facts.json", value)
    assert not list(tmp_path.iterdir())


def test_json_is_readable_text(tmp_path: Path) -> None:
    write_json(tmp_path / "facts.json", {"class": "café", "n": 1})
    assert (tmp_path / "facts.json").read_text() == '{\n  "class": "café",\n  "n": 1\n}\n'
    assert json.loads((tmp_path / "facts.json").read_text()) == {"class": "café", "n": 1}
