"""Changes of shape that can be replayed: which heads, layers, feed-forward neurons and tokens stay, which matrices are
factored, which layers share weights and which are run again, how wide the states are.

Uneven heads, narrower feed-forward blocks and removed layers do not fit a transformers config, so each change is an
`Edit` in the manifest. It is applied once to a model with weights (pruning) and replayed on an empty one (loading), by
the same code. Numbers are always those of the original model, however many edits came before. Edits never retrain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from assay.core.errors import InputError
from assay.core.model.anatomy import Family, family_of
from assay.core.model.duplicate_edit import DuplicateLayers
from assay.core.model.edit import Edit, by_number
from assay.core.model.factor_edits import FactoriseEmbedding, LowRank
from assay.core.model.generations import name_stages
from assay.core.model.layout import Layout, unedited_layout
from assay.core.model.ranges import from_ranges, to_ranges
from assay.core.model.share_edit import ShareLayers
from assay.core.model.width_edit import ReduceWidth

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


@dataclass(frozen=True)
class KeepHeads(Edit):
    """The heads that stay in each named layer; layers that are not named keep all of theirs."""

    heads: Mapping[int, Sequence[int]]
    kind: ClassVar[str] = "keep_heads"

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", _ascending(self.heads))

    def apply(self, layout: Layout) -> Layout:
        return _keep(layout, self.kind, "heads", self.heads)

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "heads": {str(index): list(kept) for index, kept in self.heads.items()}}


@dataclass(frozen=True)
class KeepCrossHeads(KeepHeads):
    """As `KeepHeads`, of the attention to the encoder in a decoder's layers."""

    kind: ClassVar[str] = "keep_cross_heads"

    def apply(self, layout: Layout) -> Layout:
        return _keep(layout, self.kind, "cross", self.heads)


@dataclass(frozen=True)
class KeepNeurons(Edit):
    """The feed-forward neurons that stay in each named layer; in JSON as ranges, "0-9,12,14-20"."""

    neurons: Mapping[int, Sequence[int]]
    kind: ClassVar[str] = "keep_neurons"

    def __post_init__(self) -> None:
        object.__setattr__(self, "neurons", _ascending(self.neurons))

    def apply(self, layout: Layout) -> Layout:
        return _keep(layout, self.kind, "neurons", self.neurons)

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "neurons": {str(index): to_ranges(kept) for index, kept in self.neurons.items()}}


@dataclass(frozen=True)
class KeepLayers(Edit):
    """The layers that stay, out of the `of` layers that were present before this edit: a number, or one a stack."""

    keep: Sequence[int]
    of: int | Sequence[int]
    kind: ClassVar[str] = "keep_layers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", tuple(sorted(self.keep)))
        object.__setattr__(self, "of", (self.of,) if isinstance(self.of, int) else tuple(self.of))

    def apply(self, layout: Layout) -> Layout:
        """InputError for another depth, a layer that is not there, and a stack left without any."""
        if self.of != layout.depths:
            made, found = (" + ".join(map(str, depths)) for depths in (self.depths, layout.depths))
            raise InputError(f"keep_layers: made for a model of {made} layers, this one has {found}")
        _check_kept("keep_layers: the model", "layer", self.keep, [layer.index for layer in layout.layers])
        kept = replace(layout, layers=tuple(layer for layer in layout.layers if layer.index in self.keep))
        if len(kept.depths) < len(layout.depths) or 0 in kept.depths:
            raise InputError("keep_layers: encoder and decoder must keep at least one layer each")
        return kept

    def to_json(self) -> dict[str, Any]:
        of = self.depths[0] if len(self.depths) == 1 else list(self.depths)
        return {"edit": self.kind, "keep": list(self.keep), "of": of}

    @property
    def depths(self) -> tuple[int, ...]:
        """`of`, as one number a stack."""
        return self.of  # type: ignore[return-value]


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
                return KeepHeads(by_number(data["heads"]))
            case "keep_cross_heads":
                return KeepCrossHeads(by_number(data["heads"]))
            case "keep_neurons":
                return KeepNeurons({int(index): from_ranges(kept) for index, kept in data["neurons"].items()})
            case "keep_layers":
                return KeepLayers(data["keep"], data["of"])
            case "keep_vocab":
                return KeepVocab(from_ranges(data["tokens"]), data["of"])
            case "low_rank":
                return LowRank(data["ranks"])
            case "factorise_embedding":
                return FactoriseEmbedding(data["rank"])
            case "share_layers":
                return ShareLayers(data["groups"])
            case "duplicate_layers":
                return DuplicateLayers(data["layers"], data["times"], data["of"])
            case "reduce_width":
                return ReduceWidth(data["width"], data["of"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"edit {str(data)[:200]} cannot be read: {error!r}") from None
    kinds = (
        KeepCrossHeads, KeepHeads, KeepLayers, KeepNeurons, KeepVocab,
        LowRank, FactoriseEmbedding, ShareLayers, DuplicateLayers, ReduceWidth,
    )  # fmt: skip
    raise InputError(f"edit {data['edit']!r} is not one of {', '.join(sorted(each.kind for each in kinds))}")


def edits_from_json(data: Iterable[Mapping[str, Any]]) -> list[Edit]:
    """The edits of a manifest in the order in which they were made."""
    return [edit_from_json(item) for item in data]


def layout_of(config: Mapping[str, Any], edits: Sequence[Mapping[str, Any]] = ()) -> Layout:
    """What is present in an artifact, given its `config` and `edits` as they are on disk.

    InputError where the edits do not fit each other or the sizes in the config, which are those after them."""
    family = family_of(config["model_type"])
    made = edits_from_json(edits)
    layout = _applied(made, unedited_layout(config, family, _original_depths(made), _original_vocabulary(made)))
    stacks = zip((stack.depth_key for stack in family.stacks), layout.depths, strict=True)
    for key, found in (*stacks, ("vocab_size", len(layout.tokens))):
        if found != config.get(key, 0):
            sizes = f"{config.get(key, 0)} in the config, {found} after the edits"
            raise InputError(f"{key}: {sizes}; config.json and manifest.json do not belong together")
    return layout


def restore_config(config: PretrainedConfig, edits: Sequence[Edit], family: Family) -> None:
    """Give a config from after `edits` the depth, vocabulary size and token ids from before them, to replay them on."""
    from assay.core.model.token_ids import renumber

    depths, vocabulary = _original_depths(edits), _original_vocabulary(edits)
    if depths is not None:
        set_depths(config, family, depths)
    if vocabulary is not None:
        config.vocab_size = vocabulary
        last = next(edit for edit in reversed(edits) if isinstance(edit, KeepVocab))
        renumber(config, dict(enumerate(last.tokens)))


def apply_edits(module: PreTrainedModel, edits: Sequence[Edit], family: Family, empty: bool = False) -> Layout:
    """Carry out `edits` on `module` in place, let its config follow, and return the layout it then has.

    The layout stays with the module as `module.layout`, so that later edits still name originals. `empty`: the weights
    mean nothing yet, so none are computed from them. InputError, before anything is changed, where an edit does not
    fit."""
    from assay.core.model.reshape import check_reshape, reshape

    layouts = _stages(edits, getattr(module, "layout", None) or unedited_layout(module.config.to_dict(), family))
    check_reshape(module, family, layouts, empty)
    for before, after in pairwise(layouts):
        reshape(module, family, before, after, empty)
    module.layout = layouts[-1]  # type: ignore[assignment]
    return layouts[-1]


def set_depths(config: PretrainedConfig, family: Family, depths: Sequence[int]) -> None:
    """Write the number of layers of each stack into the config, under every name that holds it."""
    mirrored = family.stacks[0].depth_key != "num_hidden_layers" and "num_hidden_layers" in config.to_dict()
    names = [stack.depth_key for stack in family.stacks] + ["num_hidden_layers"] * mirrored
    for name, depth in zip(names, [*depths, depths[0]], strict=False):
        setattr(config, name, depth)
    if hasattr(config, "stage_names"):
        name_stages(config, depths[0])


def _original_depths(edits: Iterable[Edit]) -> tuple[int, ...] | None:
    """Number of layers of each stack before any was removed or repeated; None where none was."""
    return next((edit.depths for edit in edits if isinstance(edit, KeepLayers | DuplicateLayers)), None)


def _original_vocabulary(edits: Iterable[Edit]) -> int | None:
    """Number of tokens before any was removed; None where none was."""
    return next((edit.of for edit in edits if isinstance(edit, KeepVocab)), None)


def _keep(layout: Layout, kind: str, units: str, kept: Mapping[int, Sequence[int]]) -> Layout:
    """The layout with the `units` (a field of LayerLayout) that are `kept` in each named layer."""
    name = {"heads": "head", "cross": "cross-attention head", "neurons": "neuron"}[units]
    for index, numbers in kept.items():
        _check_kept(f"{kind}: layer {index}", name, numbers, getattr(layout.layer(index, kind), units))
    after = [tuple(kept.get(layer.index, getattr(layer, units))) for layer in layout.layers]
    for places in layout.groups:
        if len({after[place] for place in places}) > 1:
            alike = ", ".join(str(layout.layers[place].index) for place in places)
            raise InputError(f"{kind}: layers {alike} have the same weights, so all must keep the same {name}s")
    changed: Iterable[dict[str, Any]] = ({units: numbers} for numbers in after)
    layers = (replace(layer, **change) for layer, change in zip(layout.layers, changed, strict=True))
    return replace(layout, layers=tuple(layers))


def _stages(edits: Iterable[Edit], layout: Layout) -> list[Layout]:
    """The layouts to go through one after the other, the present one first; cuts in a row are one stage."""
    stages, cutting = [layout], False
    for edit in edits:
        layout = edit.apply(layout)
        if cutting and edit.cuts:
            stages.pop()
        stages.append(layout)
        cutting = edit.cuts
    return stages


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
