"""Which layers, heads, feed-forward neurons and tokens of the original model are present, by original numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.errors import InputError
from assay.core.model.anatomy import Family


@dataclass(frozen=True)
class LayerLayout:
    """One present layer: its original number and the original numbers of its heads and neurons, ascending."""

    index: int
    heads: tuple[int, ...]
    neurons: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The present layers from bottom to top; `head_dim` is the width of one head and never changes. `tokens` are the
    original ids of the rows of the word embedding, ascending: row 0 holds the token whose id was `tokens[0]`."""

    layers: tuple[LayerLayout, ...]
    head_dim: int
    tokens: Sequence[int] = ()

    def layer(self, index: int, asked_by: str) -> LayerLayout:
        """The layer of that original number; InputError names what is present."""
        for layer in self.layers:
            if layer.index == index:
                return layer
        present = ", ".join(str(layer.index) for layer in self.layers)
        raise InputError(f"{asked_by}: layer {index} is not in the model; present: {present}")


def unedited_layout(
    config: Mapping[str, Any], family: Family, depth: int | None = None, vocabulary: int | None = None
) -> Layout:
    """The layout before any edit, from the plain data of `config.json`; `depth` (layers) and `vocabulary` (tokens)
    override what the config says. A model that reads no text has no tokens."""
    names = (family.depth_key, family.heads_key, family.width_key, family.neurons_key)
    missing = [name for name in names if name not in config]
    if missing:
        raise InputError(f"config.json: no {', '.join(missing)}; a {config.get('model_type')} model needs it")
    sizes = {name: config[name] for name in (*names, "vocab_size") if name in config}
    if wrong := [f"{name} {size!r}" for name, size in sizes.items() if not _is_size(size)]:
        raise InputError(f"config.json: {', '.join(wrong)}; sizes are whole numbers of at least 1")
    layers, heads, width, neurons = (sizes[name] for name in names)
    return Layout(
        layers=tuple(
            LayerLayout(index, tuple(range(heads)), tuple(range(neurons)))
            for index in range(layers if depth is None else depth)
        ),
        head_dim=width // heads,
        tokens=range(sizes.get("vocab_size", 0) if vocabulary is None else vocabulary),
    )


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
