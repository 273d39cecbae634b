"""Switch heads or feed-forward neurons of a live model off, or scale them, without cutting: by hooks of our own.

A mask of zeros on a head gives exactly the logits of the model without that head. Masks may require gradients: the
derivative of a loss by a mask is the sensitivity to that head (Michel et al. 2019, https://arxiv.org/abs/1905.10650).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import Any

import torch
from torch import nn

from assay.core.errors import AssayError
from assay.core.model.anatomy import Family
from assay.core.model.blocks import blocks_of, head_dim
from assay.core.model.linear import in_width

Masks = torch.Tensor | Sequence[torch.Tensor]


@contextmanager
def mask_heads(model: nn.Module, family: Family, masks: Masks) -> Iterator[None]:
    """Multiply what each head hands to the output projection.

    masks: [layers, heads], or one tensor a present layer, [heads] or, for a mask of its own for each row,
    [batch, heads]. AssayError where a mask does not fit the layer's heads."""
    with _scaled_inputs([block.o for block in blocks_of(model, family)], masks, head_dim(model, family)):
        yield


@contextmanager
def mask_cross_heads(model: nn.Module, family: Family, masks: Masks) -> Iterator[None]:
    """As `mask_heads`, for a decoder's attention to its encoder; layers without it have masks of size 0."""
    blocks = blocks_of(model, family)
    projections = [block.part(block.stack.cross.o) if block.stack.cross else None for block in blocks]
    with _scaled_inputs(projections, masks, head_dim(model, family)):
        yield


@contextmanager
def mask_neurons(model: nn.Module, family: Family, masks: Masks) -> Iterator[None]:
    """Multiply what each feed-forward neuron hands on, after its activation; shapes as in `mask_heads`."""
    with _scaled_inputs([block.ffn_out for block in blocks_of(model, family)], masks, 1):
        yield


@torch.no_grad()
def check_masking(model: nn.Module, family: Family, inputs: Mapping[str, torch.Tensor], heads: Sequence[int]) -> None:
    """AssayError unless switching off all heads of a layer changes the logits, for every layer.

    Guards against a library version whose attention goes past the projection we hook. `inputs`: one tokenized batch;
    `heads`: number of heads of each layer; the model must be in eval mode."""
    open_masks = [torch.ones(count, device=_device(model)) for count in heads]
    plain = model(**inputs).logits
    for position, block in enumerate(blocks_of(model, family)):
        masks = [mask * (place != position) for place, mask in enumerate(open_masks)]
        with mask_heads(model, family, masks):
            if torch.equal(model(**inputs).logits, plain):
                where = f"{block.path}.{block.stack.attention.o}"
                raise AssayError(f"{where}: switching off all heads of this layer does not change the logits")


@contextmanager
def _scaled_inputs(maps: Sequence[nn.Module | None], masks: Masks, channels: int) -> Iterator[None]:
    """Scale what goes into each map, `channels` a unit, by its mask.

    A map that stands for several layers gets their masks in turn."""
    _check_sizes(maps, masks, channels)
    turns: dict[int, list[torch.Tensor]] = {}
    for each, mask in zip(maps, masks, strict=True):
        turns.setdefault(id(each), []).append(mask)
    with ExitStack() as hooks:
        for each in {id(each): each for each in maps if each is not None}.values():
            hooks.callback(each.register_forward_pre_hook(_scale_by(cycle(turns[id(each)]))).remove)
        yield


def _check_sizes(maps: Sequence[nn.Module | None], masks: Masks, channels: int) -> None:
    found = [mask.shape[-1] for mask in masks]
    counts = [0 if each is None else in_width(each) // channels for each in maps]
    if found != counts:
        raise AssayError(f"masks: sizes {found} by layer, the model has {counts}")


def _scale_by(masks: Iterator[torch.Tensor]) -> Any:
    def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        states, *rest = args  # [batch, tokens, units * channels]
        mask = next(masks)
        scale = mask.repeat_interleave(states.shape[-1] // mask.shape[-1], dim=-1)
        return (states * (scale.unsqueeze(-2) if mask.dim() == 2 else scale), *rest)

    return hook


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
