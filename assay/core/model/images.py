"""Images as a model reads them: opened, resized, cut and normalised as its `preprocessor_config.json` says.

The pixels are those of transformers' image processors of the Pillow kind (ViT, DeiT and Bit, which DINOv2 uses), bit by
bit. Those differ in name and in what they import between its generations; here one small path serves training,
examining and a device that has neither torch nor transformers.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.core.model.image_files import open_image
from assay.core.model.image_settings import SETTINGS, ImageSettings

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

PIXELS = "pixel_values"
LONG = 32  # how many times its shorter edge the longer one of an image counts


def pixels(image: Image, settings: ImageSettings) -> np.ndarray:
    """float32 [channels, height, width] of one image in RGB."""
    if settings.size is not None:
        image = _without_far_ends(image, settings)
        height, width = _target(image, settings.size)
        image = image.resize((width, height), settings.resample)
    array = np.asarray(image, np.uint8)
    if settings.crop is not None:
        array = _middle(array, *settings.crop)
    values: np.ndarray = (array.astype(np.float64) * settings.scale).astype(np.float32)
    if settings.mean is not None and settings.std is not None:
        values = (values - np.array(settings.mean, np.float32)) / np.array(settings.std, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _without_far_ends(image: Image, settings: ImageSettings) -> Image:
    """Of a very long image the middle, which is all that the crop leaves: the whole, resized by its shorter edge, need
    not fit the memory."""
    if settings.crop is None or not isinstance(settings.size, int):
        return image
    keep = min(image.size) * max(LONG, math.ceil(max(settings.crop) / settings.size))
    width, height = (min(edge, keep) for edge in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def _target(image: Image, size: tuple[int, int] | int) -> tuple[int, int]:
    """(height, width) to resize to; the longer edge follows the shorter one, rounded down."""
    if isinstance(size, tuple):
        return size
    short, long = sorted((image.width, image.height))
    longer = int(size * long / short)
    return (longer, size) if image.width <= image.height else (size, longer)


def _middle(array: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle of [h, w, channels], with black around it where the image is smaller."""
    lack = [max(wanted - there, 0) for wanted, there in zip((height, width), array.shape, strict=False)]
    if any(lack):
        around = [(math.ceil(more / 2), more - math.ceil(more / 2)) for more in lack]
        array = np.pad(array, (*around, (0, 0)))
    top, left = ((there - wanted) // 2 for wanted, there in zip((height, width), array.shape, strict=False))
    return array[top : top + height, left : left + width]


class ImageEncoder:
    """Paths of images to batches: the counterpart of `Encoder`.

    An image is opened when its batch is made, so memory does not grow with rows. `max_length` is the number of tokens
    that the model makes of an image, its own ones included; `grid` is (rows, columns) of its patches."""

    def __init__(self, settings: ImageSettings, class_tokens: int, patch: int) -> None:
        self.settings, self.class_tokens = settings, class_tokens
        _, height, width = settings.shape
        self.grid = (height // patch, width // patch)
        self.max_length = class_tokens + math.prod(self.grid)

    def ids(self, paths: Sequence[str]) -> list[str]:
        """What `pad` takes: the paths themselves."""
        return list(paths)

    def lengths(self, paths: Sequence[str]) -> list[int]:
        """Tokens of each row: the same of all."""
        return [self.max_length] * len(paths)

    def row_batches(self, paths: Sequence[str], batch_size: int) -> Iterator[list[int]]:
        """Positions in `paths`, batch by batch, in their own order: all images are of one size."""
        for start in range(0, len(paths), batch_size):
            yield list(range(start, min(start + batch_size, len(paths))))

    def batches(
        self, paths: Sequence[str], batch_size: int, pad_to: int | None = None
    ) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        """(positions in `paths`, inputs), as `Encoder.batches`; `pad_to` changes nothing."""
        for rows in self.row_batches(paths, batch_size):
            yield rows, self.pad([paths[row] for row in rows])

    id_batches = batches

    def pad(self, paths: Sequence[str], pad_to: int | None = None) -> dict[str, np.ndarray]:
        """{"pixel_values": float32 [batch, channels, height, width]}; `pad_to` changes nothing."""
        return {PIXELS: np.stack([pixels(open_image(path), self.settings) for path in paths])}

    def tokens_of(
        self, inputs: Mapping[str, torch.Tensor], count: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(ids, mask, special) of `count` tokens a row, see StateBatch. The id of a token is its place: the model's own
        tokens, which count as special, then the patches row by row."""
        import torch

        places = torch.arange(count).expand(len(inputs[PIXELS]), count)
        return places, torch.ones_like(places, dtype=torch.bool), places < self.class_tokens

    def offsets(self, paths: Sequence[str], cut: bool = True) -> list[list[tuple[int, int] | None]]:
        """Of each image (place, place + 1) of its tokens, None for the model's own, as `Encoder.offsets`."""
        own: list[tuple[int, int] | None] = [None] * self.class_tokens
        return [own + [(at, at + 1) for at in range(len(own), self.max_length)] for _ in paths]

    def save_pretrained(self, out: Path) -> None:
        """Copy the image settings to another folder."""
        if out.resolve() != self.settings.folder.resolve():
            shutil.copyfile(self.settings.folder / SETTINGS, out / SETTINGS)
