"""Parts of a layer by the names that settings give them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from assay.core.errors import SettingError

if TYPE_CHECKING:
    from assay.core.model.layout import Layout

Part = Literal["attention", "cross_attention", "ffn"]


def lies_in(name: str, parts: Collection[Part] | None) -> bool:
    """Whether the map `name` (see `Block.maps`) is of one of `parts`, None standing for all."""
    part: Part = "ffn" if name.startswith("ffn") else "cross_attention" if name.startswith("cross_") else "attention"
    return parts is None or part in parts


def check_parts(setting: str, parts: Collection[Part] | None, layout: Layout) -> None:
    """SettingError where a part is named that no layer has."""
    if parts and "cross_attention" in parts and not any(layer.cross for layer in layout.layers):
        raise SettingError(setting, "cross_attention: no layer of this model attends to an encoder")
