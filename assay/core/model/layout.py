"""Which layers, heads, feed-forward neurons and tokens of the original model are present, by original numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.core.errors import InputError
from assay.core.model.anatomy import Family


@dataclass(frozen=True)
class LayerLayout:
    """One present layer: its original number and the original numbers of its heads and neurons, ascending.

    `stack` is the position of its stack in the family: 0, or 1 for the layers of a decoder that has an encoder below,
    which have heads of `cross` attention too. `ranks`: the rank of each linear map that is factored, by its name (see
    `Block.maps`). `weights`: number of the layer whose weights it has; None where they are its own."""

    index: int
    heads: tuple[int, ...]
    neurons: tuple[int, ...]
    stack: int = 0
    cross: tuple[int, ...] = ()
    ranks: Mapping[str, int] = field(default_factory=dict)
    weights: int | None = None

    @property
    def owner(self) -> int:
        """Number of the layer whose weights it has, often its own. Layers of one owner are alike in every part."""
        return self.index if self.weights is None else self.weights


@dataclass(frozen=True)
class Layout:
    """The present layers from bottom to top; `head_dim` is the width of one head, which never changes, and `width` that
    of the states between layers. `tokens` are the original ids of the rows of the word embedding, ascending: row 0
    holds the token whose id was `tokens[0]`.

    `queries_per_kv`: heads that share one key/value head in the original model (grouped-query attention), head h using
    key/value head h // queries_per_kv. `embedding_rank`: that of the word embedding where it is factored. `numbered`:
    layer numbers given so far, those of the original model and of repeats. `rotations`: how often the states were put
    in another basis, in which they may be narrower than the config says. `family`: the model type."""

    layers: tuple[LayerLayout, ...]
    head_dim: int
    width: int
    tokens: Sequence[int] = ()
    queries_per_kv: int = 1
    embedding_rank: int | None = None
    numbered: int = 0
    rotations: int = 0
    family: str = ""

    def layer(self, index: int, asked_by: str) -> LayerLayout:
        """The layer of that original number; InputError names what is present."""
        for layer in self.layers:
            if layer.index == index:
                return layer
        present = ", ".join(str(layer.index) for layer in self.layers)
        raise InputError(f"{asked_by}: layer {index} is not in the model; present: {present}")

    @property
    def groups(self) -> list[list[int]]:
        """Positions of the present layers, those that have the same weights together."""
        held: dict[int, list[int]] = {}
        for place, layer in enumerate(self.layers):
            held.setdefault(layer.owner, []).append(place)
        return list(held.values())

    @property
    def depths(self) -> tuple[int, ...]:
        """Number of layers present in each stack."""
        stacks = [layer.stack for layer in self.layers]
        return tuple(stacks.count(stack) for stack in range(max(stacks) + 1))


def unedited_layout(
    config: Mapping[str, Any], family: Family, depths: Sequence[int] | None = None, vocabulary: int | None = None
) -> Layout:
    """The layout before any edit, from the plain data of `config.json`; `depths` (layers a stack) and `vocabulary`
    (tokens) override what the config says. A model that reads no text has no tokens."""
    sizes = _sizes(config, family)
    layers: list[LayerLayout] = []
    for place, stack in enumerate(family.stacks):
        depth = sizes[stack.depth_key] if depths is None else depths[place]
        heads, neurons = tuple(range(sizes[stack.heads_key])), tuple(range(sizes[stack.neurons_key]))
        cross = heads if stack.cross else ()
        owner = 0 if family.shares_layers else None
        layers += [LayerLayout(len(layers) + at, heads, neurons, place, cross, weights=owner) for at in range(depth)]
    queries = sizes[family.stacks[0].heads_key]
    return Layout(
        layers=tuple(layers),
        width=sizes[family.width_key],
        head_dim=sizes.get(family.head_dim_key or "", sizes[family.width_key] // queries),
        tokens=range(sizes.get("vocab_size", 0) if vocabulary is None else vocabulary),
        queries_per_kv=queries // sizes.get(family.kv_heads_key or "", queries),
        numbered=len(layers),
        family=config.get("model_type", ""),
    )


def _sizes(config: Mapping[str, Any], family: Family) -> dict[str, int]:
    """The sizes a layout is made of, by name; InputError where one is missing or is no size."""
    if untold := [name for name in family.untold if config.get(name)]:
        raise InputError(f"config.json: {', '.join(untold)}: no anatomy here tells where such layers keep their maps")
    stacks = [(stack.depth_key, stack.heads_key, stack.neurons_key) for stack in family.stacks]
    names = dict.fromkeys([family.width_key, *(name for keys in stacks for name in keys)])
    optional = [family.head_dim_key, family.kv_heads_key, "vocab_size"]
    found = {name: config[name] for name in names if name in config}
    found |= {name: config[name] for name in optional if name and config.get(name) is not None}
    if "n_inner" in found and found["n_inner"] is None:  # GPT-2's way to say four times the width
        found["n_inner"] = 4 * config.get(family.width_key, 0)
    if isinstance(ratio := found.get("mlp_ratio"), int | float):  # DINOv2's way
        found["mlp_ratio"] = int(config.get(family.width_key, 0) * ratio)
    if missing := [name for name in names if name not in found]:
        raise InputError(f"config.json: no {', '.join(missing)}; a {config.get('model_type')} model needs it")
    if wrong := [f"{name} {size!r}" for name, size in found.items() if not _is_size(size)]:
        raise InputError(f"config.json: {', '.join(wrong)}; sizes are whole numbers of at least 1")
    return found


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
