"""Hidden states and attention weights in the order of the layers, whatever the shape of a model's output.

A model with an encoder and a decoder gives two lists of each; here they are one, the encoder's first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from assay.core.errors import AssayError


def hidden_states_of(output: Any) -> list[Tensor]:
    """The embedding output, then what leaves each layer, all [batch, tokens, width]. A decoder's own embedding output
    is left out. AssayError where the model was not asked for them."""
    own = getattr(output, "hidden_states", None)
    if own is None and getattr(output, "encoder_hidden_states", None):
        own = [*output.encoder_hidden_states, *output.decoder_hidden_states[1:]]
    if not own:
        raise AssayError("the model returned no hidden states; ask for output_hidden_states")
    return list(own)


def real_tokens(inputs: Mapping[str, Tensor], states: Tensor) -> Tensor:
    """bool [batch, tokens]: which of the tokens of `states` [batch, tokens, ...] are no padding; of images all."""
    if "attention_mask" in inputs:
        return inputs["attention_mask"].bool()
    return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)


def attentions_of(output: Any) -> list[Tensor]:
    """Self-attention weights of each layer, [batch, heads, tokens, tokens]. AssayError where the kernel gave none."""
    own = getattr(output, "attentions", None)
    if own is None and getattr(output, "encoder_attentions", None):
        own = [*output.encoder_attentions, *output.decoder_attentions]
    if not own or any(layer is None for layer in own):
        raise AssayError("the model returned no attention weights; load it with attn_implementation='eager'")
    return list(own)


def cross_attentions_of(output: Any) -> list[Tensor]:
    """Weights of each decoder layer's attention to its encoder, [batch, heads, decoder tokens, encoder tokens]; none
    of a model of one stack. AssayError where the kernel gave none."""
    if not getattr(output, "encoder_attentions", None):
        return []
    found = output.cross_attentions
    if not found or any(layer is None for layer in found):
        raise AssayError("the model returned no cross attention; load it with attn_implementation='eager'")
    return list(found)
