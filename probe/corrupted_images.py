"""Images made worse, in kinds and strengths after ImageNet-C (Hendrycks and Dietterich 2019, "Benchmarking Neural
Network Robustness to Common Corruptions and Perturbations").

Strengths 1 to 5 are those of its released code, which works on images of 224 pixels a side: a blur here is as wide for
the image's shorter edge as theirs for 224. Images keep their size; a model's own resizing comes after.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Kind = Literal["noise", "blur", "contrast", "brightness", "pixelate", "jpeg"]
EDGE = 224

NOISE = (0.08, 0.12, 0.18, 0.26, 0.38)  # standard deviation, of the range of a channel
BLUR = (1, 2, 3, 4, 6)  # standard deviation in pixels
CONTRAST = (0.4, 0.3, 0.2, 0.1, 0.05)  # what is left of the distance to the mean colour
BRIGHTNESS = (0.1, 0.2, 0.3, 0.4, 0.5)  # added to the value of each pixel (HSV), of its range
PIXELATE = (0.6, 0.5, 0.4, 0.3, 0.25)  # size of the image in between, of its own
JPEG = (25, 18, 15, 10, 7)  # quality


def corrupted(image: Image, kind: Kind, strength: int, draw: np.random.Generator) -> Image:
    """The image, in RGB, made worse; `strength` is 1 to 5, `draw` is where noise comes from."""
    return CHANGES[kind](image, strength - 1, draw)


def _of(values: np.ndarray) -> Image:
    """From [h, w, channels] in [0, 1], cut off outside."""
    from PIL import Image

    return Image.fromarray((values.clip(0, 1) * 255).round().astype(np.uint8))


def _values(image: Image) -> np.ndarray:
    return np.asarray(image, np.float64) / 255


def _noise(image: Image, at: int, draw: np.random.Generator) -> Image:
    values = _values(image)
    return _of(values + draw.normal(0, NOISE[at], values.shape))


def _blur(image: Image, at: int, draw: np.random.Generator) -> Image:
    from PIL import ImageFilter

    return image.filter(ImageFilter.GaussianBlur(BLUR[at] * min(image.size) / EDGE))


def _contrast(image: Image, at: int, draw: np.random.Generator) -> Image:
    values = _values(image)
    mean = values.mean((0, 1))
    return _of((values - mean) * CONTRAST[at] + mean)


def _brightness(image: Image, at: int, draw: np.random.Generator) -> Image:
    from PIL import Image

    values = np.asarray(image.convert("HSV"), np.float64)
    values[..., 2] = (values[..., 2] + 255 * BRIGHTNESS[at]).clip(0, 255)
    return Image.fromarray(values.astype(np.uint8), mode="HSV").convert("RGB")


def _pixelate(image: Image, at: int, draw: np.random.Generator) -> Image:
    from PIL import Image

    between = [max(1, round(edge * PIXELATE[at])) for edge in image.size]
    return image.resize(between, Image.Resampling.BOX).resize(image.size, Image.Resampling.BOX)


def _jpeg(image: Image, at: int, draw: np.random.Generator) -> Image:
    from PIL import Image

    written = io.BytesIO()
    image.save(written, format="JPEG", quality=JPEG[at])
    return Image.open(written).convert("RGB")


CHANGES: dict[Kind, Callable[[Image, int, np.random.Generator], Image]] = {
    "noise": _noise,
    "blur": _blur,
    "contrast": _contrast,
    "brightness": _brightness,
    "pixelate": _pixelate,
    "jpeg": _jpeg,
}
