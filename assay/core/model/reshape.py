"""Cut a transformer in place from one layout to another: whole layers, attention heads, feed-forward neurons, tokens.

The modules stay the same ones; their parameters are replaced by smaller ones of the same dtype, device and
`requires_grad`. Nothing is approximated: what stays gives the numbers it gave before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from assay.core.errors import AssayError
from assay.core.model.anatomy import Family
from assay.core.model.layout import LayerLayout, Layout
from assay.core.model.vocabulary import cut_vocabulary


def reshape(module: PreTrainedModel, family: Family, before: Layout, after: Layout) -> None:
    """Cut `module`, which has the layout `before`, to `after`, a part of it. Depth, vocabulary size and token ids in
    its config follow."""
    blocks = list(module.get_submodule(family.layers).children())
    _check_fits(blocks, family, before)
    cut_vocabulary(module, family, before.tokens, after.tokens)
    kept = []
    for old, block in zip(before.layers, blocks, strict=True):
        new = next((layer for layer in after.layers if layer.index == old.index), None)
        if new is not None:
            _cut_heads(block, family, old, new, before.head_dim)
            _cut_neurons(block, family, old, new)
            kept.append(block)
    module.set_submodule(family.layers, nn.ModuleList(kept))
    setattr(module.config, family.depth_key, len(kept))


def select(linear: nn.Module, positions: Sequence[int], dim: int) -> None:
    """Keep these outputs (dim 0, with their bias) or inputs (dim 1) of a linear map [out, in], in this order."""
    if not isinstance(linear, nn.Linear):
        raise AssayError(f"{type(linear).__name__}: only float linear maps can be cut")
    index = torch.tensor(positions, device=linear.weight.device)
    linear.weight = _part(linear.weight, index, dim)
    if dim == 0 and linear.bias is not None:
        linear.bias = _part(linear.bias, index, 0)
    linear.out_features, linear.in_features = linear.weight.shape


def _part(parameter: torch.Tensor, index: torch.Tensor, dim: int) -> nn.Parameter:
    return nn.Parameter(parameter.detach().index_select(dim, index), requires_grad=parameter.requires_grad)


def _cut_heads(block: nn.Module, family: Family, old: LayerLayout, new: LayerLayout, head_dim: int) -> None:
    if new.heads == old.heads:
        return
    heads = [old.heads.index(head) for head in new.heads]
    channels = [head * head_dim + channel for head in heads for channel in range(head_dim)]
    for path in (family.q, family.k, family.v):
        select(block.get_submodule(path), channels, dim=0)
    select(block.get_submodule(family.o), channels, dim=1)
    attention = block.get_submodule(family.attention)
    setattr(attention, family.head_count, len(heads))
    setattr(attention, family.head_width, len(channels))
    if family.head_bias_module is not None:
        bias_module = block.get_submodule(family.head_bias_module)
        bias_module.register_forward_pre_hook(_BiasOfHeads(heads), with_kwargs=True)


def _cut_neurons(block: nn.Module, family: Family, old: LayerLayout, new: LayerLayout) -> None:
    if new.neurons == old.neurons:
        return
    place = {neuron: position for position, neuron in enumerate(old.neurons)}
    positions = [place[neuron] for neuron in new.neurons]
    select(block.get_submodule(family.ffn_in), positions, dim=0)
    select(block.get_submodule(family.ffn_out), positions, dim=1)


class _BiasOfHeads:
    """Pre-hook that narrows the position bias all layers share to the heads of one layer; hooks of later edits stack,
    each with positions among the heads the one before left. Plain indexing, so it is traced and exported."""

    def __init__(self, heads: list[int]) -> None:
        self.heads = heads

    def __call__(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if kwargs.get("position_bias") is None:
            raise AssayError(f"{type(module).__name__} was called without position_bias=; its heads cannot be matched")
        return args, {**kwargs, "position_bias": kwargs["position_bias"][:, self.heads]}


def _check_fits(blocks: list[nn.Module], family: Family, layout: Layout) -> None:
    found = [tuple(b.get_submodule(path).out_features for path in (family.q, family.ffn_in)) for b in blocks]
    stated = [(len(layer.heads) * layout.head_dim, len(layer.neurons)) for layer in layout.layers]
    if found != stated:
        raise AssayError(
            f"(attention width, neurons) by layer: the model has {found}, its config and edits say {stated}; "
            "load edited models with load_module"
        )
