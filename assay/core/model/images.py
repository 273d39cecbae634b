"""Images as a model reads them: opened, resized, cut and normalised as its `preprocessor_config.json` says.

The pixels are those of transformers' image processors of the Pillow kind (ViT, DeiT and Bit, which DINOv2 uses), bit by
bit. Those differ in name and in what they import between its generations; here one small path serves training,
examining and a device that has neither torch nor transformers.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.errors import InputError
from assay.core.model.corrupt import check_content, first_line, unreadable

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

SETTINGS = "preprocessor_config.json"
KINDS = ("ViT", "DeiT", "Bit")  # how the names of the processors begin whose settings are understood here
PIXELS = "pixel_values"
CHANNELS = 3


@dataclass(frozen=True)
class ImageSettings:
    """What becomes of the images of the model in `folder`.

    size:      (height, width) they are resized to, or the length of the shorter edge; None where they are not
    crop:      (height, width) of the middle that stays, or None
    resample:  Pillow's number of the filter
    scale:     multiplies bytes
    mean, std: one value a channel, None where pixels are not normalised"""

    folder: Path
    size: tuple[int, int] | int | None
    crop: tuple[int, int] | None
    resample: int
    scale: float
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None

    @property
    def shape(self) -> tuple[int, int, int]:
        """[channels, height, width] of every image that a model gets."""
        edges = self.crop or self.size
        assert isinstance(edges, tuple)
        return (CHANNELS, *edges)


def read_settings(folder: Path) -> ImageSettings:
    """The image settings of a model folder; InputError where they are missing, of an unknown kind, or do not bring all
    images to one shape."""
    path = folder / SETTINGS
    check_content(path)
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        kind = str(given.get("image_processor_type") or given.get("feature_extractor_type") or "")
        if not kind.startswith(KINDS):
            raise ValueError(f"image_processor_type {kind!r} is not of the kinds {', '.join(KINDS)}")
        return _settings(folder, given)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise InputError(f"{path}: image settings that cannot be used: {first_line(error)}") from None


def _settings(folder: Path, given: Mapping[str, Any]) -> ImageSettings:
    size = _edges(given["size"]) if given.get("do_resize", True) else None
    crop = _edges(given["crop_size"]) if given.get("do_center_crop", False) else None
    if not isinstance(crop or size, tuple):
        raise ValueError("images of any height and width stay; state size as height and width, or a crop_size")
    normalised = given.get("do_normalize", True)
    return ImageSettings(
        folder,
        size,
        crop if isinstance(crop, tuple) else None,
        int(given["resample"]) if size else 0,
        float(given.get("rescale_factor", 1 / 255)) if given.get("do_rescale", True) else 1.0,
        _a_channel(given["image_mean"]) if normalised else None,
        _a_channel(given["image_std"]) if normalised else None,
    )


def _edges(given: Any) -> tuple[int, int] | int:
    """(height, width) or the shorter edge; a bare number is both height and width."""
    if isinstance(given, int):
        return (given, given)
    if "shortest_edge" in given:
        return int(given["shortest_edge"])
    return (int(given["height"]), int(given["width"]))


def _a_channel(given: Sequence[float]) -> tuple[float, ...]:
    if len(given) != CHANNELS:
        raise ValueError(f"image_mean and image_std need {CHANNELS} values, one a channel; got {len(given)}")
    return tuple(map(float, given))


def open_image(path: str | Path) -> Image:
    """The image in RGB, the right way up. InputError where it cannot be read, or Pillow is not installed."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise InputError(f"{path}: images need Pillow: pip install 'assay[images]'") from None
    check_content(Path(path))
    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise unreadable(Path(path), f"no whole image ({first_line(error)})") from None


def pixels(image: Image, settings: ImageSettings) -> np.ndarray:
    """float32 [channels, height, width] of one image in RGB."""
    if settings.size is not None:
        height, width = _target(image, settings.size)
        image = image.resize((width, height), settings.resample)
    array = np.asarray(image, np.uint8)
    if settings.crop is not None:
        array = _middle(array, *settings.crop)
    values: np.ndarray = (array.astype(np.float64) * settings.scale).astype(np.float32)
    if settings.mean is not None and settings.std is not None:
        values = (values - np.array(settings.mean, np.float32)) / np.array(settings.std, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1))


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
    that the model makes of an image, its own ones included."""

    def __init__(self, settings: ImageSettings, class_tokens: int, patch: int) -> None:
        self.settings, self.class_tokens = settings, class_tokens
        _, height, width = settings.shape
        self.max_length = class_tokens + (height // patch) * (width // patch)

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
