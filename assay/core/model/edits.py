"""Changes of shape that can be replayed: which heads, layers, feed-forward neurons and tokens stay.

Uneven heads, narrower feed-forward blocks and removed layers do not fit a transformers config, so each change is an
`Edit` in the manifest. It is applied once to a model with weights (pruning) and replayed on an empty one (loading), by
the same code. Numbers are always those of the original model, however many edits came before. Edits never retrain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from assay.core.errors import InputError
from assay.core.model.anatomy import Family, family_of
from assay.core.model.layout import Layout, unedited_layout
from assay.core.model.ranges import from_ranges, to_ranges

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


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
        return {"edit": self.kind, "neurons": {str(index): to_ranges(kept) for index, kept in self.neurons.items()}}


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


@dataclass(frozen=True)
class KeepVocab(Edit):
    """The tokens that stay, by original id, out of the `of` tokens that were present before this edit; in JSON as
    ranges. The ids of those that stay close up: the n-th of them becomes token n."""

    tokens: Sequence[int]
    of: int
    kind: ClassVar[str] = "keep_vocab"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(sorted(int(token) for token in self.tokens)))

    def apply(self, layout: Layout) -> Layout:
        if self.of != len(layout.tokens):
            raise InputError(f"keep_vocab: made for a model of {self.of} tokens, this one has {len(layout.tokens)}")
        _check_kept("keep_vocab: the model", "token", self.tokens, layout.tokens)
        return replace(layout, tokens=self.tokens)

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "tokens": to_ranges(self.tokens), "of": self.of}


def edit_from_json(data: Mapping[str, Any]) -> Edit:
    """The edit that `to_json` wrote; InputError where it is none."""
    try:
        match data["edit"]:
            case "keep_heads":
                return KeepHeads({int(index): kept for index, kept in data["heads"].items()})
            case "keep_neurons":
                return KeepNeurons({int(index): from_ranges(kept) for index, kept in data["neurons"].items()})
            case "keep_layers":
                return KeepLayers(data["keep"], data["of"])
            case "keep_vocab":
                return KeepVocab(from_ranges(data["tokens"]), data["of"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"edit {str(data)[:200]} cannot be read: {error!r}") from None
    raise InputError(f"edit {data['edit']!r} is not one of keep_heads, keep_layers, keep_neurons, keep_vocab")


def edits_from_json(data: Iterable[Mapping[str, Any]]) -> list[Edit]:
    """The edits of a manifest in the order in which they were made."""
    return [edit_from_json(item) for item in data]


def layout_of(config: Mapping[str, Any], edits: Sequence[Mapping[str, Any]] = ()) -> Layout:
    """What is present in an artifact, given its `config` and `edits` as they are on disk.

    InputError where the edits do not fit each other or the sizes in the config, which are those after them."""
    family = family_of(config["model_type"])
    made = edits_from_json(edits)
    layout = _applied(made, unedited_layout(config, family, _original(KeepLayers, made), _original(KeepVocab, made)))
    for key, found in ((family.depth_key, len(layout.layers)), ("vocab_size", len(layout.tokens))):
        if found != config.get(key, 0):
            sizes = f"{config.get(key, 0)} in the config, {found} after the edits"
            raise InputError(f"{key}: {sizes}; config.json and manifest.json do not belong together")
    return layout


def restore_config(config: PretrainedConfig, edits: Sequence[Edit], family: Family) -> None:
    """Give a config from after `edits` the depth, vocabulary size and token ids from before them, to replay them on."""
    from assay.core.model.token_ids import renumber

    depth, vocabulary = _original(KeepLayers, edits), _original(KeepVocab, edits)
    if depth is not None:
        setattr(config, family.depth_key, depth)
    if vocabulary is not None:
        config.vocab_size = vocabulary
        last = next(edit for edit in reversed(edits) if isinstance(edit, KeepVocab))
        renumber(config, dict(enumerate(last.tokens)))


def apply_edits(module: PreTrainedModel, edits: Sequence[Edit], family: Family) -> Layout:
    """Cut the weights of `module` in place, let its config follow, and return the layout it then has.

    The layout stays with the module as `module.layout`, so that later edits still name originals. InputError, before
    anything is cut, where an edit does not fit."""
    from assay.core.model.reshape import reshape

    before = getattr(module, "layout", None) or unedited_layout(module.config.to_dict(), family)
    layout = _applied(edits, before)
    reshape(module, family, before, layout)
    module.layout = layout  # type: ignore[assignment]
    return layout


def _original(kind: type[KeepLayers | KeepVocab], edits: Iterable[Edit]) -> int | None:
    """Number of layers, or of tokens, before any was removed; None where none was."""
    return next((edit.of for edit in edits if isinstance(edit, kind)), None)


def _applied(edits: Iterable[Edit], layout: Layout) -> Layout:
    for edit in edits:
        layout = edit.apply(layout)
    return layout


def _ascending(kept: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(sorted(int(number) for number in kept[index])) for index in sorted(kept)}


def _check_kept(where: str, unit: str, kept: Sequence[int], present: Sequence[int]) -> None:
    if not kept:
        raise InputError(f"{where} would lose its last {unit}; keep at least one of {to_ranges(present)}")
    if len(set(kept)) < len(kept):
        raise InputError(f"{where}: {unit}s {list(kept)} name one twice")
    absent = sorted(set(kept) - set(present))
    if absent:
        raise InputError(f"{where} has no {unit} {to_ranges(absent)}; present: {to_ranges(present)}")
