"""Cut a transformer in place from one layout to another: whole layers, attention heads, feed-forward neurons, tokens.

The modules stay the same ones; their parameters are replaced by smaller ones of the same dtype, device and
`requires_grad`. Nothing is approximated: what stays gives the numbers it gave before.
"""

from __future__ import annotations

from itertools import groupby

from torch import nn
from transformers import PreTrainedModel

from assay.core.errors import AssayError, InputError
from assay.core.model.anatomy import Attention, Family
from assay.core.model.blocks import Block, blocks_of
from assay.core.model.edits import set_depths
from assay.core.model.key_values import match_queries
from assay.core.model.layout import LayerLayout, Layout
from assay.core.model.linear import in_width, out_width, select
from assay.core.model.position_bias import narrow_bias, own_bias
from assay.core.model.vocabulary import cut_vocabulary


def reshape(module: PreTrainedModel, family: Family, before: Layout, after: Layout) -> None:
    """Cut `module`, which has the layout `before`, to `after`, a part of it. Depth, vocabulary size and token ids in
    its config follow. InputError, before anything is cut, where layers count their own number into their output."""
    blocks = blocks_of(module, family)
    _check_fits(blocks, before)
    if len(after.layers) < len(before.layers) and getattr(module.config, "scale_attn_by_inverse_layer_idx", False):
        raise InputError("keep_layers: scale_attn_by_inverse_layer_idx scales each layer by its number; none can go")
    cut_vocabulary(module, family, before.tokens, after.tokens)
    if family.position_bias == "first layer" and before.layers != after.layers:
        own_bias(blocks)
    kept: list[tuple[Block, LayerLayout]] = []
    done: set[int] = set()
    for old, block in zip(before.layers, blocks, strict=True):
        new = next((layer for layer in after.layers if layer.index == old.index), None)
        if new is not None:
            if id(block.module) not in done:
                _cut(block, family, before, old, new)
                done.add(id(block.module))
            kept.append((block, new))
    if len(kept) < len(blocks):
        _replace_layers(module, family, kept)
    set_depths(module.config, family, after.depths)


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
        groups = ([head // layout.queries_per_kv for head in each] for each in (old, new))
        old_kv, users = sorted(set(next(groups))), next(groups)
        new_kv = sorted(set(users))
        for linear in block.parts(names.kv):
            select(linear, _channels([old_kv.index(head) for head in new_kv], layout.head_dim), dim=0)
        match_queries(attention, block.parts(names.kv), [new_kv.index(head) for head in users], layout.head_dim)
    for name, size in ((names.count, len(heads)), (names.channels, len(channels))):
        if name is not None:
            setattr(attention, name, size)


def _channels(heads: list[int], head_dim: int) -> list[int]:
    return [head * head_dim + channel for head in heads for channel in range(head_dim)]


def _replace_layers(module: PreTrainedModel, family: Family, kept: list[tuple[Block, LayerLayout]]) -> None:
    """Leave the kept layers in the model's lists; what numbers itself by place in its stack is numbered anew."""
    if family.shares_layers:
        return
    for _, members in groupby(kept, key=lambda each: each[1].stack):
        layers = [block for block, _ in members]
        module.set_submodule(layers[0].stack.layers, nn.ModuleList(block.module for block in layers))
        for place, block in enumerate(layers):
            for part in block.module.modules():
                if isinstance(getattr(part, "layer_idx", None), int):
                    part.layer_idx = place  # type: ignore[assignment]


def _check_fits(blocks: list[Block], layout: Layout) -> None:
    found = [(in_width(block.o), out_width(block.parts(block.stack.ffn_in)[0])) for block in blocks]
    stated = [(len(layer.heads) * layout.head_dim, len(layer.neurons)) for layer in layout.layers]
    if found != stated:
        raise AssayError(
            f"(attention width, neurons) by layer: the model has {found}, its config and edits say {stated}; "
            "load edited models with load_module"
        )
