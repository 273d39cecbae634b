"""Changes of shape that can be replayed: which heads, layers and feed-forward neurons stay.

Uneven heads, narrower feed-forward blocks and removed layers do not fit a transformers config, so each change is an
`Edit` in the manifest. It is applied once to a model with weights (pruning) and replayed on an empty one (loading), by
the same code. Numbers are always those of the original model, however many edits came before. Edits never retrain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from assay.core.errors import InputError
from assay.core.model.anatomy import Family, family_of
from assay.core.model.layout import Layout, unedited_layout

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Edit(ABC):
    """One change of shape. `kind` names it in JSON."""

    kind: ClassVar[str]

    @abstractmethod
    def apply(self, layout: Layout) -> Layout:
        """The layout after this edit; InputError where it names what is not there or leaves nothing."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain data that `edit_from_json` reads back."""


@dataclass(frozen=True)
class KeepHeads(Edit):
    """The heads that stay in each named layer; layers that are not named keep all of theirs."""

    heads: Mapping[int, Sequence[int]]
    kind: ClassVar[str] = "keep_heads"

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", _ascending(self.heads))

    def apply(self, layout: Layout) -> Layout:
        for index, kept in self.heads.items():
            where = f"keep_heads: layer {index}"
            _check_kept(where, "head", kept, layout.layer(index, "keep_heads").heads)
        layers = (replace(layer, heads=tuple(self.heads.get(layer.index, layer.heads))) for layer in layout.layers)
        return replace(layout, layers=tuple(layers))

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "heads": {str(index): list(kept) for index, kept in self.heads.items()}}


@dataclass(frozen=True)
class KeepNeurons(Edit):
    """The feed-forward neurons that stay in each named layer; in JSON as ranges, "0-9,12,14-20"."""

    neurons: Mapping[int, Sequence[int]]
    kind: ClassVar[str] = "keep_neurons"

    def __post_init__(self) -> None:
        object.__setattr__(self, "neurons", _ascending(self.neurons))

    def apply(self, layout: Layout) -> Layout:
        for index, kept in self.neurons.items():
            where = f"keep_neurons: layer {index}"
            _check_kept(where, "neuron", kept, layout.layer(index, "keep_neurons").neurons)
        layers = (
            replace(layer, neurons=tuple(self.neurons.get(layer.index, layer.neurons))) for layer in layout.layers
        )
        return replace(layout, layers=tuple(layers))

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "neurons": {str(index): _to_ranges(kept) for index, kept in self.neurons.items()}}


@dataclass(frozen=True)
class KeepLayers(Edit):
    """The layers that stay, out of the `of` layers that were present before this edit."""

    keep: Sequence[int]
    of: int
    kind: ClassVar[str] = "keep_layers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", tuple(sorted(self.keep)))

    def apply(self, layout: Layout) -> Layout:
        if self.of != len(layout.layers):
            raise InputError(f"keep_layers: made for a model of {self.of} layers, this one has {len(layout.layers)}")
        _check_kept("keep_layers: the model", "layer", self.keep, [layer.index for layer in layout.layers])
        return replace(layout, layers=tuple(layer for layer in layout.layers if layer.index in self.keep))

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "keep": list(self.keep), "of": self.of}


def edit_from_json(data: Mapping[str, Any]) -> Edit:
    """The edit that `to_json` wrote; InputError where it is none."""
    try:
        match data["edit"]:
            case "keep_heads":
                return KeepHeads({int(index): kept for index, kept in data["heads"].items()})
            case "keep_neurons":
                return KeepNeurons({int(index): _from_ranges(kept) for index, kept in data["neurons"].items()})
            case "keep_layers":
                return KeepLayers(data["keep"], data["of"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"edit {data!r} cannot be read: {error!r}") from None
    raise InputError(f"edit {data['edit']!r} is not one of keep_heads, keep_layers, keep_neurons")


def edits_from_json(data: Iterable[Mapping[str, Any]]) -> list[Edit]:
    """The edits of a manifest in the order in which they were made."""
    return [edit_from_json(item) for item in data]


def layout_of(config: Mapping[str, Any], edits: Sequence[Mapping[str, Any]] = ()) -> Layout:
    """What is present in an artifact, given its `config` and `edits` as they are on disk.

    InputError where the edits do not fit each other or the depth in the config, which is the one after them."""
    family = family_of(config["model_type"])
    made = edits_from_json(edits)
    layout = _applied(made, unedited_layout(config, family, original_depth(made)))
    if len(layout.layers) != config[family.depth_key]:
        depths = f"{config[family.depth_key]} in the config, {len(layout.layers)} after the edits"
        raise InputError(f"{family.depth_key}: {depths}; config.json and manifest.json do not belong together")
    return layout


def original_depth(edits: Iterable[Edit]) -> int | None:
    """Number of layers before any was removed, or None where none was."""
    return next((edit.of for edit in edits if isinstance(edit, KeepLayers)), None)


def apply_edits(module: PreTrainedModel, edits: Sequence[Edit], family: Family) -> Layout:
    """Cut the weights of `module` in place, set the depth in its config, and return the layout it then has.

    The layout stays with the module as `module.layout`, so that later edits still name originals. InputError, before
    anything is cut, where an edit does not fit."""
    from assay.core.model.reshape import reshape

    before = getattr(module, "layout", None) or unedited_layout(module.config.to_dict(), family)
    layout = _applied(edits, before)
    reshape(module, family, before, layout)
    module.layout = layout  # type: ignore[assignment]
    return layout


def _applied(edits: Iterable[Edit], layout: Layout) -> Layout:
    for edit in edits:
        layout = edit.apply(layout)
    return layout


def _ascending(kept: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(sorted(int(number) for number in kept[index])) for index in sorted(kept)}


def _check_kept(where: str, unit: str, kept: Sequence[int], present: Sequence[int]) -> None:
    if not kept:
        raise InputError(f"{where} would lose its last {unit}; keep at least one of {_to_ranges(present)}")
    if len(set(kept)) < len(kept):
        raise InputError(f"{where}: {unit}s {list(kept)} name one twice")
    absent = sorted(set(kept) - set(present))
    if absent:
        raise InputError(f"{where} has no {unit} {_to_ranges(absent)}; present: {_to_ranges(present)}")


def _to_ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as text: [0, 1, 2, 5] -> "0-2,5"."""
    starts = [numbers[0], *(right for left, right in pairwise(numbers) if right > left + 1)]
    ends = [*(left for left, right in pairwise(numbers) if right > left + 1), numbers[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _from_ranges(text: str) -> list[int]:
    bounds = [[int(bound) for bound in part.split("-")] for part in text.split(",")]
    return [number for first, *last in bounds for number in range(first, (last or [first])[0] + 1)]
