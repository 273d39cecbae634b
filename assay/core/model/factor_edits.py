"""Edits that put two smaller matrices in the place of one: in linear maps of the layers, and in the word embedding.

On a model with weights the two are the best approximation of the one by its singular values (Eckart & Young 1936); a
step that wants another writes it into the matrix first, and the edit then splits it without loss.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from assay.core.errors import InputError
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edit import Edit, by_number
from assay.core.model.layout import LayerLayout, Layout


@dataclass(frozen=True)
class LowRank(Edit):
    """Linear maps that become two, [rank, in] and [out, rank]: layer -> name of the map (see `Block.maps`) -> rank.

    A map that is factored already may get a lower rank. Layers of the same weights must get the same ranks."""

    ranks: Mapping[int, Mapping[str, int]]
    kind: ClassVar[str] = "low_rank"
    cuts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", {layer: dict(ranks) for layer, ranks in by_number(self.ranks).items()})

    def apply(self, layout: Layout) -> Layout:
        """InputError for a map that is not there, a rank that saves nothing, and layers of the same weights that would
        get different ranks."""
        for index, ranks in self.ranks.items():
            for name, rank in ranks.items():
                _check_rank(name, rank, layout.layer(index, self.kind), layout)
        layers = [replace(each, ranks={**each.ranks, **self.ranks.get(each.index, {})}) for each in layout.layers]
        for places in layout.groups:
            if any(layers[place].ranks != layers[places[0]].ranks for place in places):
                alike = ", ".join(str(layers[place].index) for place in places)
                raise InputError(f"low_rank: layers {alike} have the same weights, so all must get the same ranks")
        return replace(layout, layers=tuple(layers))

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "ranks": {str(layer): dict(ranks) for layer, ranks in self.ranks.items()}}


@dataclass(frozen=True)
class FactoriseEmbedding(Edit):
    """The word embedding [tokens, width] becomes [tokens, rank] and a map from rank to width (Lan et al. 2020)."""

    rank: int
    kind: ClassVar[str] = "factorise_embedding"
    cuts: ClassVar[bool] = False

    def apply(self, layout: Layout) -> Layout:
        if layout.family and FAMILIES[layout.family].reads_images:
            raise InputError("factorise_embedding: a model of images has no table of tokens")
        if layout.embedding_rank is not None:
            raise InputError(f"factorise_embedding: the embedding is factored already, at rank {layout.embedding_rank}")
        if not 1 <= self.rank <= layout.width:
            raise InputError(f"factorise_embedding: rank {self.rank} is not in 1-{layout.width}, the model's width")
        return replace(layout, embedding_rank=self.rank)

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "rank": self.rank}


def _check_rank(name: str, rank: int, layer: LayerLayout, layout: Layout) -> None:
    where = f"low_rank: layer {layer.index}"
    most = layer.ranks.get(name, min(layout.width, _outer_width(name, layer, layout)))
    if most == 0:
        raise InputError(f"{where} has no map {name!r}")
    if not 1 <= rank <= most:
        raise InputError(f"{where}: rank {rank} of {name} is not in 1-{most}, which is all it has")


def _outer_width(name: str, layer: LayerLayout, layout: Layout) -> int:
    """The side of a map that is not the model's width; 0 where a layer cannot have such a map."""
    heads = layer.cross if name.startswith("cross_") else layer.heads
    groups = {head // layout.queries_per_kv for head in heads}
    queries, keys = len(heads) * layout.head_dim, len(groups) * layout.head_dim
    kind = re.sub(r"^cross_(?!ffn)|_\d+$", "", name)
    neurons = len(layer.neurons)
    sizes = {
        "q": queries,
        "k": keys,
        "v": keys,
        "qkv": 3 * queries,
        "o": queries,
        "ffn_in": neurons,
        "ffn_out": neurons,
    }
    return sizes.get(kind, 0)
