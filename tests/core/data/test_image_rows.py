"""Rows of images: from folders and tables, the same where their files are the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="Pillow is not installed: pip install pillow")

from tiny_images import paths_of, write_images

from assay.core.data.prepare import JobData, prepare
from assay.core.data.settings import DataSettings
from assay.core.errors import InputError

TASK = "image-classification"


def rows_of(source: Path, **settings: object) -> JobData:
    told = {"split": {"test": 8, "validation": 4}, **settings}
    return prepare(DataSettings.model_validate({"source": str(source), **told}), TASK, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_images(tmp_path / "images", rows=30)


def test_the_folder_of_an_image_is_its_class(folder: Path) -> None:
    data = rows_of(folder)
    assert data.labels == ("dark", "light")
    assert [len(split) for split in (data.train, data.validation, data.test)] == [18, 4, 8]
    for split in (data.train, data.validation, data.test):
        assert [Path(path).parent.name for path in split.texts] == [data.labels[label] for label in split.labels]
    assert data.notes["image_sizes"] == {"50x40": 30}
    assert data.notes["repeated_images"] == data.notes["conflicting_images"] == 0


def test_moved_images_are_the_same_rows_and_changed_ones_are_not(folder: Path, tmp_path: Path) -> None:
    before = rows_of(folder).fingerprint
    moved = folder.rename(tmp_path / "elsewhere")
    assert rows_of(moved).fingerprint == before
    one, other, *_ = paths_of(moved)
    shutil.copy(one, other)
    assert rows_of(moved).fingerprint != before


def test_equal_files_stay_on_one_side_of_a_split(folder: Path) -> None:
    for path in paths_of(folder / "dark"):
        shutil.copy(path, path.replace(".png", "-again.png"))
    data = rows_of(folder)
    assert data.notes["repeated_images"] == 15
    names = [{Path(path).stem.removesuffix("-again") for path in split.texts} for split in (data.train, data.test)]
    assert not names[0] & names[1]


def test_a_table_names_paths_beside_itself(folder: Path) -> None:
    table = folder / "rows.csv"
    lines = [f"{Path(path).relative_to(folder)},{Path(path).parent.name}" for path in paths_of(folder)]
    table.write_text("\n".join(["picture,label", *lines]))
    data = rows_of(table, image="picture")
    assert data.fingerprint == rows_of(folder).fingerprint
    table.write_text("\n".join(["picture,label", *lines, "dark/none.png,dark"]))
    with pytest.raises(InputError, match=r"rows\.csv: row 31: no image .*none\.png"):
        rows_of(table, image="picture")


def test_what_is_no_folder_of_images_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no folders of images; one folder a class"):
        rows_of(tmp_path / "empty")
    (folder / "odd").mkdir()
    (folder / "odd" / "notes.txt").write_text("no image")
    with pytest.raises(InputError, match="the folder of class 'odd' holds no image"):
        rows_of(folder)
    with pytest.raises(InputError, match="not from the hub"):
        prepare(DataSettings(source="hf:some/images"), TASK, 0)


def test_a_damaged_image_is_found_before_any_training(folder: Path) -> None:
    path = Path(paths_of(folder)[3])
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(InputError, match=rf"{path.name}: 900 bytes, cannot be read"):
        rows_of(folder)


def test_a_test_folder_of_its_own_is_used_whole(folder: Path, tmp_path: Path) -> None:
    held_out = write_images(tmp_path / "held-out", rows=6, seed=1)
    shutil.copy(paths_of(held_out)[0], folder / "dark" / "leak.png")
    data = rows_of(folder, test_source=str(held_out), split={"validation": 4})
    assert len(data.test) == 6
    assert len(data.train) == 26
    assert not any("leak" in path for path in data.train.texts + data.validation.texts)
    assert np.unique(data.test.labels).tolist() == [0, 1]


def test_linked_images_count_and_links_that_lead_nowhere_are_told(folder: Path, tmp_path: Path) -> None:
    more = write_images(tmp_path / "more", rows=6, seed=2)
    (folder / "dark" / "linked").symlink_to(more / "dark")
    (more / "dark" / "round").symlink_to(folder / "dark")
    assert rows_of(folder).notes["class_counts"]["train"]["dark"] == 12  # 18 in all
    (folder / "light" / "lost.png").symlink_to(tmp_path / "none.png")
    with pytest.raises(InputError, match=r"lost\.png: a symbolic link to .*none\.png, which leads nowhere"):
        rows_of(folder)


def test_files_that_are_no_images_are_counted_and_hidden_ones_are_not_there(folder: Path) -> None:
    (folder / "read.me").touch()
    (folder / "dark" / "big.heic").touch()
    (folder / "dark" / "._000.png").touch()
    (folder / "dark" / ".checkpoints").mkdir()
    shutil.copy(paths_of(folder)[0], folder / "dark" / ".checkpoints" / "copy.png")
    (folder / "__MACOSX").mkdir()
    data = rows_of(folder)
    assert data.labels == ("dark", "light")
    assert data.notes["files"]["train"]["rows"] == 30
    assert data.notes["files"]["train"]["passed_over"] == {".me": 1, ".heic": 1}


def test_folders_of_splits_are_no_classes(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    folder.rename(tmp_path / "both" / "train")
    with pytest.raises(InputError, match=r"its folders are train: splits, not classes; name one as data\.source"):
        rows_of(tmp_path / "both")
    assert len(rows_of(tmp_path / "both" / "train").train) == 18


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"where": {"fold": 1}}, r"data\.where: .* is a folder of images and has no columns"),
        ({"label": "breed"}, r"data\.label: .* has no columns"),
        ({"text": "path"}, r"data\.text: the rows are images"),
        ({"max_length": 64}, r"data\.max_length: the rows are images"),
    ],
)
def test_settings_of_something_else_are_refused(setting: dict[str, object], told: str, folder: Path) -> None:
    with pytest.raises(InputError, match=told):
        rows_of(folder, **setting)


def test_names_of_files_are_text_of_any_kind(folder: Path) -> None:
    odd = ["a b.png", "\u732b.png", "new\nline.png", '<b>".png', "%41.png"]
    for name, path in zip(odd, paths_of(folder / "dark"), strict=False):
        Path(path).rename(Path(path).with_name(name))
    data = rows_of(folder)
    paths = data.train.texts + data.validation.texts + data.test.texts
    assert set(odd) <= {Path(path).name for path in paths}
    os.rename(os.fsencode(paths_of(folder / "light")[0]), os.fsencode(folder / "light") + b"/\xff.png")
    with pytest.raises(InputError, match=r"\\xff\.png': a name that is not UTF-8; rename it"):
        rows_of(folder)


@pytest.mark.parametrize("path", ["", "dark", "x" * 5000, "a\0b.png", "https://a.b/c.png"], ids=lambda path: path[:9])
def test_what_a_table_names_must_be_a_file(path: str, folder: Path) -> None:
    table = folder / "rows.csv"
    table.write_text(f"image,label\ndark/000.png,dark\n{path},light\n")
    with pytest.raises(InputError, match=r"rows\.csv: row 2: no image '.{,301}$"):
        rows_of(table)
