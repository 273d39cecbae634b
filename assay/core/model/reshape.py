"""Bring a transformer in place from one layout to another: whole layers, attention heads, feed-forward neurons and
tokens go, matrices are factored, layers get the weights of others or are run again, states get narrower.

Where something is cut, the modules stay the same ones; their parameters are replaced by smaller ones of the same dtype,
device and `requires_grad`, and what stays gives the numbers it gave before. Factors and narrower states approximate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from torch import nn
from transformers import PreTrainedModel

from assay.core.errors import AssayError, InputError
from assay.core.model.anatomy import Attention, Family
from assay.core.model.blocks import Block, blocks_of
from assay.core.model.edits import set_depths
from assay.core.model.embedding import check_embedding, factorise_embedding
from assay.core.model.key_values import match_queries
from assay.core.model.layout import LayerLayout, Layout
from assay.core.model.linear import in_width, out_width, select
from assay.core.model.low_rank import split
from assay.core.model.narrow import check_basis, narrow
from assay.core.model.position_bias import narrow_bias, own_bias
from assay.core.model.vocabulary import cut_vocabulary


def check_reshape(module: PreTrainedModel, family: Family, layouts: Sequence[Layout], empty: bool = False) -> None:
    """That `module`, which has the first of `layouts`, can be brought to the others in turn.

    AssayError where it has another, or lacks the basis that narrower states need; InputError where layers that may not
    count their own number into their output, or where the family has no map or embedding of the kind that would be
    factored."""
    before, after = layouts[0], layouts[-1]
    blocks = blocks_of(module, family)
    _check_fits(blocks, before)
    moved = any(new.depths != before.depths or new.groups != before.groups for new in layouts)
    if moved and getattr(module.config, "scale_attn_by_inverse_layer_idx", False):
        text = "scale_attn_by_inverse_layer_idx scales each layer by its number; none can go or share weights"
        raise InputError(f"{family.base}: {text}")
    by_owner = {layer.owner: block.maps() for layer, block in zip(before.layers, blocks, strict=True)}
    for layer in (layer for layout in layouts for layer in layout.layers):
        if absent := set(layer.ranks) - by_owner[layer.owner].keys():
            there = ", ".join(by_owner[layer.owner])
            raise InputError(f"low_rank: layer {layer.index} has no map {sorted(absent)[0]!r}; it has {there}")
    if after.embedding_rank != before.embedding_rank:
        check_embedding(module, family, after.embedding_rank)
    if not empty:
        check_basis(module, layouts)


def reshape(module: PreTrainedModel, family: Family, before: Layout, after: Layout, empty: bool = False) -> None:
    """Bring `module`, which has the layout `before`, to `after`. Depth, vocabulary size and token ids in its config
    follow. `empty`: factors need not be computed from the weights, which mean nothing yet."""
    blocks = blocks_of(module, family)
    if family.word_embeddings is not None:
        cut_vocabulary(module, family, before.tokens, after.tokens)
    narrow(module, family, before, after, empty)
    if after.embedding_rank != before.embedding_rank:
        factorise_embedding(module, family, after.embedding_rank, empty)
    unfactored = [[replace(layer, ranks={}) for layer in layout.layers] for layout in (before, after)]
    if family.position_bias == "first layer" and unfactored[0] != unfactored[1]:
        own_bias(blocks)
    done: set[int] = set()
    for old, block in zip(before.layers, blocks, strict=True):
        new = next((layer for layer in after.layers if layer.index == old.index), None)
        if new is not None and id(block.module) not in done:
            _cut(block, family, before, old, new)
            _factorise(block, after, old, new, empty)
            done.add(id(block.module))
    owners = {old.owner: block for old, block in reversed(list(zip(before.layers, blocks, strict=True)))}
    held = [(owners[new.owner], new) for new in after.layers]
    if [block.module for block, _ in held] != [block.module for block in blocks]:
        _replace_layers(module, family, held)
    set_depths(module.config, family, after.depths)
    _set_depths_of_stacks(module, family, after.depths)


def _factorise(block: Block, layout: Layout, old: LayerLayout, new: LayerLayout, empty: bool) -> None:
    """Split the maps whose rank is new."""
    changed = {name: rank for name, rank in new.ranks.items() if old.ranks.get(name) != rank}
    for name, rank in changed.items():
        path = block.maps()[name]
        block.module.set_submodule(path, split(block.part(path), rank, empty))
    if layout.queries_per_kv > 1 and {"k", "v"} & changed.keys():
        _match(block, block.stack.attention, layout, new.heads)


def _cut(block: Block, family: Family, layout: Layout, old: LayerLayout, new: LayerLayout) -> None:
    if new.heads != old.heads:
        _cut_heads(block, block.stack.attention, layout, old.heads, new.heads)
        if family.position_bias is not None:
            narrow_bias(block, family, [old.heads.index(head) for head in new.heads])
    if new.cross != old.cross:
        assert block.stack.cross is not None
        _cut_heads(block, block.stack.cross, layout, old.cross, new.cross)
    if new.neurons != old.neurons:
        place = {neuron: position for position, neuron in enumerate(old.neurons)}
        positions = [place[neuron] for neuron in new.neurons]
        for linear in block.parts(block.stack.ffn_in):
            select(linear, positions, dim=0)
        select(block.ffn_out, positions, dim=1)


def _cut_heads(block: Block, names: Attention, layout: Layout, old: tuple[int, ...], new: tuple[int, ...]) -> None:
    heads, width = [old.index(head) for head in new], len(old) * layout.head_dim
    channels = _channels(heads, layout.head_dim)
    for linear in block.parts(names.q):
        select(linear, channels, dim=0)
    select(block.part(names.o), channels, dim=1)
    if names.qkv is not None:
        select(block.part(names.qkv), [third * width + channel for third in range(3) for channel in channels], dim=0)
    attention = block.part(names.module)
    if layout.queries_per_kv == 1:
        for linear in block.parts(names.kv):
            select(linear, channels, dim=0)
    else:
        old_kv, new_kv = (sorted({head // layout.queries_per_kv for head in each}) for each in (old, new))
        for linear in block.parts(names.kv):
            select(linear, _channels([old_kv.index(head) for head in new_kv], layout.head_dim), dim=0)
        _match(block, names, layout, new)
    for name, size in ((names.count, len(heads)), (names.channels, len(channels))):
        if name is not None:
            setattr(attention, name, size)


def _match(block: Block, names: Attention, layout: Layout, heads: tuple[int, ...]) -> None:
    """Let each of the layer's query heads use what is there of its key/value head."""
    users = [head // layout.queries_per_kv for head in heads]
    present = sorted(set(users))
    places = [present.index(head) for head in users]
    match_queries(block.part(names.module), block.parts(names.kv), places, layout.head_dim)


def _channels(heads: list[int], head_dim: int) -> list[int]:
    return [head * head_dim + channel for head in heads for channel in range(head_dim)]


def _replace_layers(module: PreTrainedModel, family: Family, kept: list[tuple[Block, LayerLayout]]) -> None:
    """Put the kept layers into the model's lists; what numbers itself by place in its stack is numbered anew, and one
    in several places by its last."""
    if family.shares_layers:
        return
    for _, members in groupby(kept, key=lambda each: each[1].stack):
        layers = [block for block, _ in members]
        module.set_submodule(layers[0].stack.layers, nn.ModuleList(block.module for block in layers))
        for place, block in enumerate(layers):
            for part in block.module.modules():
                if isinstance(getattr(part, "layer_idx", None), int):
                    part.layer_idx = place  # type: ignore[assignment]


def _set_depths_of_stacks(module: PreTrainedModel, family: Family, depths: Sequence[int]) -> None:
    """Where a stack has a config of its own, as T5's do: under the name of the first stack's depth in all of them."""
    for stack, depth in zip(family.stacks, depths, strict=True):
        config = getattr(module.get_submodule(stack.layers.rpartition(".")[0]), "config", module.config)
        if config is not module.config:
            setattr(config, family.stacks[0].depth_key, depth)


def _check_fits(blocks: list[Block], layout: Layout) -> None:
    found = [(in_width(block.o), out_width(block.parts(block.stack.ffn_in)[0])) for block in blocks]
    stated = [(len(layer.heads) * layout.head_dim, len(layer.neurons)) for layer in layout.layers]
    if found != stated:
        raise AssayError(
            f"(attention width, neurons) by layer: the model has {found}, its config and edits say {stated}; "
            "load edited models with load_module"
        )
