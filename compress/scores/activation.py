"""Size of a neuron's activation: its mean absolute value over the real tokens of the rows.

A neuron that is always near zero writes nothing. Needs no labels, and does not see what the layer above makes of it.
"""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor, nn

from assay.core.model.blocks import blocks_of
from assay.core.model.outputs import real_tokens
from compress.scores.subject import Subject


@torch.no_grad()
def score(subject: Subject) -> list[Tensor]:
    """One [neurons] tensor a layer, not scaled by layer."""
    totals, tokens = [torch.zeros(size) for size in subject.sizes], 0
    for inputs in subject.inputs():
        activations = _activations(subject, inputs)
        real = real_tokens(inputs, activations[0])
        sums = [states.abs()[real].sum(0) for states in activations]
        totals = [total + added for total, added in zip(totals, sums, strict=True)]
        tokens += int(real.sum())
    return [total / tokens for total in totals]


def _activations(subject: Subject, inputs: dict[str, Tensor]) -> list[Tensor]:
    """What each layer's neurons hand on, [batch, tokens, neurons]."""
    seen: list[Tensor] = []

    def note(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        seen.append(args[0])

    with ExitStack() as hooks:
        for linear in dict.fromkeys(block.ffn_out for block in blocks_of(subject.module, subject.family)):
            handle = linear.register_forward_pre_hook(note)
            hooks.callback(handle.remove)
        subject.module(**inputs)
    return seen
