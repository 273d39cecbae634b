"""Which units stay when learned gates are rounded to 0 and 1, so that a stated share of the weights goes.

CoFi (Xia et al. 2022) closes as many gates as are expected to be closed; here it is the stated share, so that the size
of the result is known beforehand. Lowest gates first, over the whole model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Gated = Mapping[str, Sequence[Tensor]]


@dataclass(frozen=True)
class Shape:
    """What there is to remove. `sizes`: units of each layer by kind, `heads` and `neurons`; `costs`: weights of one
    unit; `stacks`: the stack of each layer."""

    sizes: Mapping[str, Sequence[int]]
    costs: Mapping[str, int]
    stacks: Sequence[int]

    def layer_cost(self, layer: int) -> int:
        """Weights of all units of a layer."""
        return sum(self.costs[kind] * sizes[layer] for kind, sizes in self.sizes.items())

    def counted(self, kinds: Sequence[str]) -> list[str]:
        """Kinds of units whose weights can go: those that are gated, all where whole layers are."""
        return [kind for kind in self.sizes if kind in kinds or "layers" in kinds]

    def total(self, kinds: Sequence[str]) -> int:
        """Weights that can go."""
        return sum(self.costs[kind] * sum(self.sizes[kind]) for kind in self.counted(kinds))


def choose(shape: Shape, log_alpha: Gated, closed: Sequence[bool], target: float) -> dict[str, list[Tensor]]:
    """What stays, True, by kind and layer: kinds as in `log_alpha`, `layers` with one entry each.

    `target` is the share of the weights that can go. Where units are gated too, only layers that are `closed` and fit
    into it go whole, lowest first; then the lowest units of the layers that stay. Otherwise each goes if that brings
    the share nearer to the target. The last unit of a layer and the last layer of a stack stay."""
    kept = {kind: [torch.ones_like(layer, dtype=torch.bool) for layer in layers] for kind, layers in log_alpha.items()}
    left = target * shape.total(list(log_alpha))
    units = [kind for kind in log_alpha if kind != "layers"]
    if "layers" in log_alpha:
        may_go, whole = [not units or each for each in closed], 1.0 if units else 0.5
        left -= _close_layers(shape, log_alpha["layers"], may_go, kept["layers"], left, whole)
    gone = [layer for layer, stays in enumerate(kept.get("layers", [])) if not stays.item()]
    for kind in units:
        for layer in gone:
            kept[kind][layer][:] = False
    _close_units(shape, {kind: log_alpha[kind] for kind in units}, kept, left)
    return kept


def share_gone(shape: Shape, kept: Gated) -> float:
    """Share of the weights that can go which is gone."""
    kinds, weights = list(kept), 0
    for kind in shape.counted(kinds):
        for layer, size in enumerate(shape.sizes[kind]):
            there = bool(kept["layers"][layer].item()) if "layers" in kept else True
            count = int(kept[kind][layer].sum()) if kind in kept else size
            weights += shape.costs[kind] * count * there
    return 1 - weights / shape.total(kinds)


def _close_layers(
    shape: Shape, gates: Sequence[Tensor], may_go: Sequence[bool], kept: Sequence[Tensor], left: float, part: float
) -> float:
    """Close layers in `kept` of whose weights at least `part` fits into `left`; returns the weights that went."""
    present = list(shape.stacks)
    spent = 0.0
    for layer in sorted(range(len(gates)), key=lambda place: gates[place].item()):
        cost, stack = shape.layer_cost(layer), shape.stacks[layer]
        if may_go[layer] and spent + cost * part <= left and present.count(stack) > 1:
            kept[layer][:] = False
            present.remove(stack)
            spent += cost
    return spent


def _close_units(shape: Shape, gates: Gated, kept: Gated, left: float) -> None:
    """Close units in `kept` until weights of `left` are gone."""
    places = [
        (value, kind, layer, unit)
        for kind, layers in gates.items()
        for layer, values in enumerate(layers)
        for unit, value in enumerate(values.tolist())
        if kept[kind][layer][unit]
    ]
    for _, kind, layer, unit in sorted(places):
        if shape.costs[kind] / 2 <= left and kept[kind][layer].sum() > 1:
            kept[kind][layer][unit] = False
            left -= shape.costs[kind]
