"""Switch heads or feed-forward neurons of a live model off, or scale them, without cutting: by hooks of our own.

A mask of zeros on a head gives exactly the logits of the model without that head. Masks may require gradients: the
derivative of a loss by a mask is the sensitivity to that head (Michel et al. 2019, https://arxiv.org/abs/1905.10650).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from assay.core.errors import AssayError
from assay.core.model.anatomy import Family

Masks = torch.Tensor | Sequence[torch.Tensor]


@contextmanager
def mask_heads(model: nn.Module, family: Family, masks: Masks) -> Iterator[None]:
    """Multiply what each head hands to the output projection.

    masks: [layers, heads], or one tensor a present layer, [heads] or, for a mask of its own for each row,
    [batch, heads]. AssayError where a mask does not fit the layer's heads."""
    counts = [getattr(block.get_submodule(family.attention), family.head_count) for block in _blocks(model, family)]
    with _scaled_inputs(model, family, family.o, masks, counts):
        yield


@contextmanager
def mask_neurons(model: nn.Module, family: Family, masks: Masks) -> Iterator[None]:
    """Multiply what each feed-forward neuron hands on, after its activation; shapes as in `mask_heads`."""
    counts = [block.get_submodule(family.ffn_out).get_parameter("weight").shape[1] for block in _blocks(model, family)]
    with _scaled_inputs(model, family, family.ffn_out, masks, counts):
        yield


@torch.no_grad()
def check_masking(model: nn.Module, family: Family, inputs: Mapping[str, torch.Tensor]) -> None:
    """AssayError unless switching off all heads of a layer changes the logits, for every layer.

    Guards against a library version whose attention goes past the projection we hook. `inputs`: one tokenized batch;
    the model must be in eval mode."""
    blocks = _blocks(model, family)
    open_masks = [
        torch.ones(getattr(block.get_submodule(family.attention), family.head_count), device=_device(model))
        for block in blocks
    ]
    plain = model(**inputs).logits
    for position in range(len(blocks)):
        masks = [mask * (place != position) for place, mask in enumerate(open_masks)]
        with mask_heads(model, family, masks):
            if torch.equal(model(**inputs).logits, plain):
                where = f"{family.layers}.{position}.{family.o}"
                raise AssayError(f"{where}: switching off all heads of this layer does not change the logits")


@contextmanager
def _scaled_inputs(model: nn.Module, family: Family, path: str, masks: Masks, counts: list[int]) -> Iterator[None]:
    found = [mask.shape[-1] for mask in masks]
    if found != counts:
        raise AssayError(f"masks for {path}: sizes {found} by layer, the model has {counts}")
    with ExitStack() as hooks:
        for block, mask in zip(_blocks(model, family), masks, strict=True):
            handle = block.get_submodule(path).register_forward_pre_hook(_scale_by(mask))
            hooks.callback(handle.remove)
        yield


def _scale_by(mask: torch.Tensor) -> Any:
    def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        states, *rest = args  # [batch, tokens, units * channels]
        scale = mask.repeat_interleave(states.shape[-1] // mask.shape[-1], dim=-1)
        return (states * (scale.unsqueeze(-2) if mask.dim() == 2 else scale), *rest)

    return hook


def _blocks(model: nn.Module, family: Family) -> list[nn.Module]:
    return list(model.get_submodule(family.layers).children())


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
