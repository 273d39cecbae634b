"""The edit that lets layers share their weights (Lan et al. 2020, "ALBERT", https://arxiv.org/abs/1909.11942)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from assay.core.errors import InputError
from assay.core.model.edit import Edit
from assay.core.model.layout import LayerLayout, Layout


@dataclass(frozen=True)
class ShareLayers(Edit):
    """Groups of layers, each of which has one set of weights afterwards: those of its first layer.

    The layers of a group are of one stack and alike in heads, neurons and ranks, and stay so: later edits must cut the
    same from all of them. A group that shares weights already can only grow."""

    groups: Sequence[Sequence[int]]
    kind: ClassVar[str] = "share_layers"
    cuts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(tuple(sorted(int(each) for each in group)) for group in self.groups))

    def apply(self, layout: Layout) -> Layout:
        """InputError for a layer named twice or not there, and for layers that differ or share weights already."""
        named = [number for group in self.groups for number in group]
        if twice := sorted({number for number in named if named.count(number) > 1}):
            raise InputError(f"share_layers: layer {twice[0]} is named twice; groups: {_told(self.groups)}")
        owners: dict[int, int] = {}
        for group in self.groups:
            layers = [layout.layer(number, self.kind) for number in group]
            _check_alike(layers)
            _check_whole(layers, layout)
            owners |= dict.fromkeys(group, layers[0].owner)
        layers = [replace(each, weights=owners.get(each.index, each.weights)) for each in layout.layers]
        return replace(layout, layers=tuple(layers))

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "groups": [list(group) for group in self.groups]}


def _check_alike(layers: Sequence[LayerLayout]) -> None:
    if len({layer.owner for layer in layers}) < 2:
        numbers = ", ".join(str(layer.index) for layer in layers) or "none"
        raise InputError(f"share_layers: a group needs layers of at least two sets of weights; got {numbers}")
    first, *others = layers
    for layer in others:
        for what in ("stack", "heads", "cross", "neurons", "ranks"):
            if getattr(layer, what) != getattr(first, what):
                pair = f"layers {first.index} and {layer.index}"
                raise InputError(f"share_layers: {pair} differ in their {what}; only layers that are alike can share")


def _check_whole(layers: Sequence[LayerLayout], layout: Layout) -> None:
    owners, named = {layer.owner for layer in layers}, {layer.index for layer in layers}
    for layer in layout.layers:
        if layer.owner in owners and layer.index not in named:
            text = f"layer {layer.index} shares weights with one of {sorted(named)} already; name it in the same group"
            raise InputError(f"share_layers: {text}")


def _told(groups: Sequence[Sequence[int]]) -> str:
    return ", ".join(str(list(group)) for group in groups)
