"""Rows of images: a folder with one folder a class, or a table with a column of paths. A row's "text" is its path."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from assay.core.address import HUB, resolve
from assay.core.artifact import is_image
from assay.core.data.read import Rows, read_rows
from assay.core.data.settings import DataSettings
from assay.core.errors import InputError
from assay.core.model.image_files import FORMATS, open_image

SIZES = 3  # the most frequent ones that the notes name
SHOWN = 300  # characters of a path that is not there
COLUMNS = {"where", "image", "label", "delimiter", "empty"}  # settings that speak of a table
TEXTS = {"text", "max_length"}  # settings that speak of texts
SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev"}


def read_images(address: str, settings: DataSettings) -> Rows:
    """All images of `address`; InputError names the folder, or the table's row, of what is not there, and settings that
    speak of something else.

    In a table, paths that are not absolute start at the table's own folder. Numbers count the images of a folder in the
    order of their paths. Hidden files and folders are left out."""
    if address.startswith(HUB):
        raise InputError(f"{address}: images are read from a folder or a table of paths, not from the hub")
    if given := TEXTS & settings.model_fields_set:
        raise InputError(f"data.{min(given)}: the rows are images, which have no text to cut; remove it")
    path = resolve(address)
    return _from_folder(address, path, settings) if path.is_dir() else _from_table(address, path, settings)


def content_of(task: str) -> Callable[[str], str]:
    """What makes a row itself: of an image the hash of its file, of a text its letters."""
    return image_digest if is_image(task) else str


def image_digest(path: str) -> str:
    """Hash of an image file, read again once the file has changed."""
    about = Path(path).stat()
    return _digest(path, about.st_mtime_ns, about.st_size)


def common_sizes(paths: Sequence[str]) -> dict[str, int]:
    """ "WIDTHxHEIGHT" -> images, of the most frequent sizes. Opens every image: InputError where one is not whole."""
    sizes = Counter("{}x{}".format(*open_image(path).size) for path in paths)
    return dict(sizes.most_common(SIZES))


@cache
def _digest(path: str, changed_ns: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _from_folder(address: str, folder: Path, settings: DataSettings) -> Rows:
    if given := COLUMNS & settings.model_fields_set:
        raise InputError(f"data.{min(given)}: {address} is a folder of images and has no columns; remove it")
    rows = Rows(address)
    for each in _classes(address, folder, rows):
        images = _images_below(each, rows)
        if not images:
            raise InputError(f"{address}: the folder of class {each.name!r} holds no image ({', '.join(FORMATS)})")
        rows.texts += [str(path.resolve()) for path in images]
        rows.cells += [(each.name,)] * len(images)
    if not rows.texts:
        raise InputError(f"{address}: no folders of images; one folder a class is needed, named as the class")
    rows.seen = len(rows)
    rows.numbers = list(range(1, rows.seen + 1))
    return rows


def _classes(address: str, folder: Path, rows: Rows) -> list[Path]:
    """The folders of all classes; InputError where they are those of splits."""
    there = _seen(folder)
    classes = [each for each in there if each.is_dir()]
    rows.passed_over.update(each.suffix.lower() for each in there if not each.is_dir())
    if classes and {each.name.lower() for each in classes} <= SPLITS:
        found = ", ".join(each.name for each in classes)
        raise InputError(
            f"{address}: its folders are {found}: splits, not classes; name one as data.source, and those held out as "
            "data.test_source and data.validation_source"
        )
    return classes


def _images_below(folder: Path, rows: Rows) -> list[Path]:
    """All images in the order of their paths, also those in folders further down and where links lead."""
    found: list[Path] = []
    waiting, entered = [folder], {folder.resolve()}
    while waiting:
        for path in _seen(waiting.pop()):
            if path.is_dir():
                if path.resolve() not in entered:  # a link may lead back up
                    entered.add(path.resolve())
                    waiting.append(path)
            elif path.suffix.lower() in FORMATS and path.is_file():
                found.append(path)
            else:
                rows.passed_over[path.suffix.lower()] += 1
    return sorted(found)


def _seen(folder: Path) -> list[Path]:
    """What lies in a folder, in the order of names, but for what is hidden; InputError for a link that leads nowhere
    and a name that is no text."""
    seen = sorted(each for each in folder.iterdir() if not each.name.startswith((".", "__MACOSX")))
    for path in seen:
        if path.is_symlink() and not path.exists():
            raise InputError(f"{path}: a symbolic link to {path.readlink()}, which leads nowhere")
        if _is_no_text(path.name):
            raise InputError(f"{os.fsencode(path)!r}: a name that is not UTF-8; rename it")
    return seen


def _is_no_text(name: str) -> bool:
    """Whether its bytes are not UTF-8, for which Python puts halves of characters."""
    return any("\ud800" <= letter <= "\udfff" for letter in name)


def _from_table(address: str, table: Path, settings: DataSettings) -> Rows:
    rows = read_rows(address, settings.model_copy(update={"text": settings.image}))
    for number, text in zip(rows.numbers, rows.texts, strict=True):
        if not os.path.isfile(table.parent / text):
            raise InputError(f"{address}: row {number}: no image {str(table.parent / text)[:SHOWN]!r}")
    rows.texts = [str((table.parent / text).resolve()) for text in rows.texts]
    return rows
