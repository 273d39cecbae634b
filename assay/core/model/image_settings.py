"""What `preprocessor_config.json` says becomes of an image, and whether the model takes what comes of it.

The settings are those of transformers' image processors of the ViT, DeiT and Bit kind (DINOv2 uses Bit), as either
generation writes them. What they leave open would be guessed, so it is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import InputError
from assay.core.model.corrupt import check_content, first_line

SETTINGS = "preprocessor_config.json"
KINDS = ("ViT", "DeiT", "Bit")  # how the names of the processors begin whose settings are understood here
NAMES = re.compile(rf"({'|'.join(KINDS)})(ImageProcessor(Fast|Pil)?|FeatureExtractor)")
FILTERS = range(6)  # Pillow's, from nearest (0) to Hamming (5)
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
        stated = {name: value for name, value in given.items() if value is not None}
        return _settings(folder, stated, _kind(stated))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: image settings that cannot be used: {first_line(error)}") from None


def check_fits(settings: ImageSettings, config: Mapping[str, Any], any_size: bool) -> None:
    """InputError where the model of `config` (plain data of `config.json`) cannot take the images that the settings
    make. `any_size`: it fits its positions to images of another size than those it was trained on."""
    where, (channels, height, width) = settings.folder / "config.json", settings.shape
    edge = patch_edge(config, where)
    taken = config.get("num_channels", CHANNELS)
    if taken != channels:
        raise InputError(f"{where}: num_channels {taken!r}; images are read in {channels} channels, RGB")
    trained = _trained_on(config, where)
    if min(height, width, *trained) < edge:
        raise InputError(f"{where}: patches of {edge} x {edge} pixels do not fit images of {height} x {width}")
    if any_size and trained[0] != trained[1]:
        raise InputError(f"{where}: image_size {list(trained)}; positions are fitted from those of square images alone")
    if not any_size and (height, width) != trained:
        raise InputError(
            f"{settings.folder / SETTINGS}: it makes images of {height} x {width} pixels (high, wide); the model takes "
            f"{trained[0]} x {trained[1]} alone (image_size in config.json), so state that as size, or crop_size"
        )


def patch_edge(config: Mapping[str, Any], where: Path) -> int:
    """Height and width of a patch in pixels; InputError names `where` the config is, where it states no such edge."""
    edge = config.get("patch_size")
    if not _is_size(edge):
        raise InputError(f"{where}: patch_size {edge!r}; the edge of square patches in pixels is needed, such as 16")
    return int(edge)  # type: ignore[arg-type]


def _trained_on(config: Mapping[str, Any], where: Path) -> tuple[int, int]:
    """(height, width) that the config states."""
    try:
        return _height_and_width(config.get("image_size"), "image_size")
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def _kind(given: Mapping[str, Any]) -> str:
    name = str(given.get("image_processor_type") or given.get("feature_extractor_type") or "")
    if not (found := NAMES.fullmatch(name)):
        raise ValueError(f"image_processor_type {name!r} is not of the kinds {', '.join(KINDS)}")
    return found[1]


def _settings(folder: Path, given: Mapping[str, Any], kind: str) -> ImageSettings:
    size = _resized_to(_stated(given, "size"), kind) if given.get("do_resize", True) else None
    cropped = given.get("do_center_crop", kind != "ViT")
    crop = _height_and_width(_stated(given, "crop_size"), "crop_size") if cropped else None
    if not isinstance(crop or size, tuple):
        raise ValueError("images of any height and width stay; state size as height and width, or a crop_size")
    normalised = given.get("do_normalize", True)
    return ImageSettings(
        folder,
        size,
        crop,
        _filter(_stated(given, "resample")) if size else 0,
        float(given.get("rescale_factor", 1 / 255)) if given.get("do_rescale", True) else 1.0,
        _a_channel(given, "image_mean") if normalised else None,
        _a_channel(given, "image_std") if normalised else None,
    )


def _stated(given: Mapping[str, Any], name: str) -> Any:
    if name not in given:
        raise ValueError(f"no {name} is stated")
    return given[name]


def _resized_to(given: Any, kind: str) -> tuple[int, int] | int:
    """(height, width) or the shorter edge, which is what a bare number means to Bit alone."""
    bare = kind == "Bit" and isinstance(given, int)
    edges = {"shortest_edge": given} if bare else given
    if not isinstance(edges, dict) or edges.keys() != {"shortest_edge"}:
        return _height_and_width(edges, "size")
    if not _is_size(edges["shortest_edge"]):
        raise ValueError(f"size {given!r}; edges are whole numbers of at least 1")
    return int(edges["shortest_edge"])


def _height_and_width(given: Any, name: str) -> tuple[int, int]:
    """Of a mapping, of a pair, or of one number for both."""
    if isinstance(given, dict) and given.keys() == {"height", "width"}:
        edges = [given["height"], given["width"]]
    else:
        edges = list(given) if isinstance(given, list | tuple) else [given, given]
    if len(edges) != 2 or not all(map(_is_size, edges)):
        raise ValueError(f"{name} {given!r}; height and width are needed, whole numbers of at least 1")
    return int(edges[0]), int(edges[1])


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _filter(given: Any) -> int:
    if given not in FILTERS:
        raise ValueError(f"resample {given!r}; it is the number of one of Pillow's filters, 0 to {FILTERS[-1]}")
    return int(given)


def _a_channel(given: Mapping[str, Any], name: str) -> tuple[float, ...]:
    """One finite value a channel; those of `image_std` divide."""
    values = tuple(map(float, _stated(given, name)))
    if len(values) != CHANNELS:
        raise ValueError(f"image_mean and image_std need {CHANNELS} values, one a channel; {name} has {len(values)}")
    if not all(map(math.isfinite, values)) or (name == "image_std" and min(values) <= 0):
        raise ValueError(f"{name} {list(values)}; finite numbers are needed, above 0 to divide by")
    return values
