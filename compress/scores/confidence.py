"""Confidence of a head: how much of its attention goes to one token (Voita et al. 2019, section 4).

The mean, over rows and tokens, of the largest attention weight. Padding neither attends nor is attended to. The paper
leaves out the end-of-sentence symbol; here that is the separator, as a token that attends and as one attended to,
since a head with nothing to do looks at the separator (Clark et al. 2019). [CLS] is a token like any other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from assay.core.model.outputs import attentions_of, real_tokens
from compress.scores.subject import Subject


@torch.no_grad()
def score(subject: Subject) -> list[Tensor]:
    """One [heads] tensor a layer, in [0, 1]. AssayError where the model gives no attention weights."""
    totals, tokens = [torch.zeros(size) for size in subject.sizes], 0
    for inputs in subject.inputs():
        layers = attentions_of(subject.module(**inputs, output_attentions=True))
        counted = _counted(subject, inputs, layers[0])
        totals = [total + _largest(weights, counted).sum(0) for total, weights in zip(totals, layers, strict=True)]
        tokens += int(counted.sum())
    return [total / max(1, tokens) for total in totals]


def _counted(subject: Subject, inputs: dict[str, Tensor], weights: Tensor) -> Tensor:
    """bool [batch, tokens]: neither padding nor separator, which images have none of."""
    real = real_tokens(inputs, weights.transpose(1, 2))
    if not subject.separators:
        return real
    return real & ~torch.isin(inputs["input_ids"], torch.tensor(subject.separators))


def _largest(weights: Tensor, counted: Tensor) -> Tensor:
    """[batch, heads]: the largest weight of each counted token on a counted one, summed over tokens."""
    most = weights.masked_fill(~counted[:, None, None, :], 0).amax(-1)  # [batch, heads, tokens]
    return (most * counted[:, None, :]).sum(-1)
