"""Rows of images: a folder with one folder a class, or a table with a column of paths. A row's "text" is its path."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from assay.core.address import HUB, resolve
from assay.core.artifact import is_image
from assay.core.data.read import Rows, read_rows
from assay.core.data.settings import DataSettings
from assay.core.errors import InputError
from assay.core.model.images import open_image

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
SIZES = 3  # the most frequent ones that the notes name


def read_images(address: str, settings: DataSettings) -> Rows:
    """All images of `address`; InputError names the folder, or the table's row, of what is not there.

    In a table, paths that are not absolute start at the table's own folder. Numbers count the images of a folder in the
    order of their paths."""
    if address.startswith(HUB):
        raise InputError(f"{address}: images are read from a folder or a table of paths, not from the hub")
    path = resolve(address)
    return _from_folder(address, path) if path.is_dir() else _from_table(address, path, settings)


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


def _from_folder(address: str, folder: Path) -> Rows:
    classes = sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    rows = Rows(address)
    for each in classes:
        found = sorted(path for path in each.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
        if not found:
            raise InputError(f"{address}: the folder of class {each.name!r} holds no image ({', '.join(ENDINGS)})")
        rows.texts += [str(path.resolve()) for path in found]
        rows.cells += [(each.name,)] * len(found)
    if not rows.texts:
        raise InputError(f"{address}: no folders of images; one folder a class is needed, named as the class")
    rows.seen = len(rows)
    rows.numbers = list(range(1, rows.seen + 1))
    return rows


def _from_table(address: str, table: Path, settings: DataSettings) -> Rows:
    rows = read_rows(address, settings.model_copy(update={"text": settings.image}))
    found = [(table.parent / text).resolve() for text in rows.texts]
    for number, path in zip(rows.numbers, found, strict=True):
        if not path.is_file():
            raise InputError(f"{address}: row {number}: no image {path}")
    rows.texts = [str(path) for path in found]
    return rows
