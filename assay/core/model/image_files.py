"""Files of images, opened by Pillow: in RGB, with 8 bits a channel, the right way up. Imports no torch."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.core.errors import InputError
from assay.core.model.corrupt import check_content, first_line, unreadable

if TYPE_CHECKING:
    from PIL.Image import Image

# What the ending of a file stands for. Pillow opens these alone: for others, such as EPS, it starts other programs.
FORMATS = {
    ".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".jpe": "JPEG", ".jfif": "JPEG", ".bmp": "BMP", ".gif": "GIF",
    ".webp": "WEBP", ".tif": "TIFF", ".tiff": "TIFF", ".ppm": "PPM", ".pgm": "PPM",
}  # fmt: skip
ORIENTATION = 0x0112  # of the notes of a camera (EXIF)
TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}  # orientation -> Pillow's number of what undoes it
SHORT = ("PNG", "PPM")  # formats whose whole numbers have 16 bits, whatever Pillow keeps them in


def open_image(path: str | Path) -> Image:
    """The image in RGB, the right way up; of several, the first. Grays of 16 bits are brought to 8.

    InputError where it cannot be read or has grays of no known range, or Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError(f"{path}: images need Pillow: pip install pillow") from None
    check_content(Path(path))
    try:
        with Image.open(path, formats=sorted(set(FORMATS.values()))) as image:
            return _upright(_in_bytes(image).convert("RGB"), image.getexif().get(ORIENTATION))
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise unreadable(Path(path), f"no whole image ({first_line(error)})") from None


def _upright(image: Image, stated: object) -> Image:
    """Turned as the camera says it was held. `ImageOps.exif_transpose` also writes all its other notes anew, and fails
    where one of them is damaged."""
    return image.transpose(TURNS[stated]) if stated in TURNS else image  # type: ignore[arg-type]


def _in_bytes(image: Image) -> Image:
    """Grays of 16 bits as the upper 8, as other readers have them; Pillow's own conversion makes them white."""
    from PIL import Image as images

    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in SHORT):
        return images.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"grays of mode {image.mode} have no known white; save it with 8 or 16 bits")
    return image
