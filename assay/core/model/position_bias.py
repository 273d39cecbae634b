"""Position biases that layers hand to each other, once the layers have heads of their own.

MPNet's encoder computes one bias [batch, heads, tokens, tokens] for all layers; one with fewer heads takes its part.
T5's first layer computes it from a table [buckets, heads] and hands it on, together with the mask; there every layer
gets a copy of the table, so that it can lose rows of its own and the first layer can go. The numbers stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any

import torch
from torch import nn

from assay.core.errors import AssayError
from assay.core.model.anatomy import Family
from assay.core.model.blocks import Block
from assay.core.model.linear import part_of


def own_bias(blocks: Sequence[Block]) -> None:
    """Give every self attention its own copy of its stack's first table, and let none take what is handed to it. Once
    done, it is not done again."""
    for _, members in groupby(blocks, key=lambda block: block.stack.layers):
        layers = list(members)
        first, *others = [block.part(block.stack.attention.module) for block in layers]
        for attention in others:
            if not attention.has_relative_attention_bias:
                attention.relative_attention_bias = deepcopy(first.relative_attention_bias)
                attention.has_relative_attention_bias = True  # type: ignore[assignment]
        for block in layers:
            for names in (block.stack.attention, block.stack.cross):
                if names is not None:
                    _take_none(block.part(names.module))


def narrow_bias(block: Block, family: Family, heads: list[int]) -> None:
    """Leave the bias of these heads, given by position among those the layer had."""
    if family.position_bias == "first layer":
        table = block.part(block.stack.attention.module).relative_attention_bias
        table.weight = part_of(table.weight, torch.tensor(heads, device=table.weight.device), 1)  # type: ignore
        table.embedding_dim = len(heads)  # type: ignore[union-attr]
    else:
        assert family.bias_module is not None
        block.part(family.bias_module).register_forward_pre_hook(_BiasOfHeads(heads), with_kwargs=True)


class _BiasOfHeads:
    """Pre-hook that narrows the position bias all layers share to the heads of one layer; hooks of later edits stack,
    each with positions among the heads the one before left. Plain indexing, so it is traced and exported."""

    def __init__(self, heads: list[int]) -> None:
        self.heads = heads

    def __call__(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if kwargs.get("position_bias") is None:
            raise AssayError(f"{type(module).__name__} was called without position_bias=; its heads cannot be matched")
        return args, {**kwargs, "position_bias": kwargs["position_bias"][:, self.heads]}


def _take_none(attention: nn.Module) -> None:
    """Let the attention compute its own bias whatever it is handed."""
    if not getattr(attention, "takes_no_bias", False):
        attention.register_forward_pre_hook(_without_bias, with_kwargs=True)
        attention.takes_no_bias = True  # type: ignore[assignment]


def _without_bias(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, {**kwargs, "position_bias": None}
