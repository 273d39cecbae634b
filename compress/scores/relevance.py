"""Relevance of a head to the predicted class: its part of the logit by layer-wise relevance propagation.

Voita et al. 2019 (section 4, after Ding et al. 2017) ask so of the likeliest next word. Relevance is a head's output
times the gradient of the highest logit in the linear map that the model is for a row (`compress/linearised.py`), summed
over the head's channels: the epsilon rule with epsilon 0, attention weights and norms being constants (Ali et al.
2022). The released code of Voita et al. has the alpha-beta rule, goes through the softmax unless told otherwise,
spreads biases over inputs and rescales after each step; biases here keep their part. Absolute values are added up,
since a head that speaks against a class matters as does one that speaks for it.
"""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor, nn

from compress.linearised import linearised
from compress.scores.subject import Subject


def score(subject: Subject) -> list[Tensor]:
    """Sum of |relevance| over tokens and rows, each layer scaled to sum 1; [heads] a layer.

    Of a multi-label model it is the label with the highest logit, of a regression the one output. A row of a higher
    logit counts for more."""
    totals = [torch.zeros(size) for size in subject.sizes]
    used = [place for place, size in enumerate(subject.sizes) if size]
    for inputs in subject.inputs():
        for place, layer in zip(used, head_relevance(subject, inputs), strict=True):
            totals[place] += layer.abs().sum((0, 1))
    return [total / total.sum().clamp_min(torch.finfo(total.dtype).tiny) for total in totals]


def head_relevance(subject: Subject, inputs: dict[str, Tensor]) -> list[Tensor]:
    """Signed relevance to each row's highest logit, [batch, tokens, heads] for each layer that has such heads; of a
    language model to the sum of the highest logits of its tokens."""
    seen: list[Tensor] = []

    def note(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        seen.append(args[0])

    with ExitStack() as hooks, linearised(subject.module, subject.family), torch.enable_grad():
        for linear in dict.fromkeys(subject.outputs()):
            hooks.callback(linear.register_forward_pre_hook(note).remove)
        best = subject.module(**inputs).logits.amax(-1)  # [batch], of a language model [batch, tokens]
    asked = best[inputs["attention_mask"].bool()] if best.dim() == 2 else best
    slopes = torch.autograd.grad(asked.sum(), seen)
    sizes = [size for size in subject.sizes if size]
    return [
        (states * slope).detach().unflatten(-1, (size, -1)).sum(-1)
        for states, slope, size in zip(seen, slopes, sizes, strict=True)
    ]
