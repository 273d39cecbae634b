"""What a layer's attention output loses without the head: the error a distillation of that output would start from.

The squared error of the output of the attention block on real tokens, as a share of that output's own square:
E || W_o[:, head] z_head ||^2 / E || W_o z + b_o ||^2. One pass over the rows for all heads, no labels, no gradient.

Single-shot meta-pruning (Zhang et al. 2021, "Know What You Don't Need: Single-Shot Meta-Pruning for Attention Heads")
has the idea that heads may go as long as the distribution of the model's representations is kept. There a pruner is
trained, on the representations of whole texts; here nothing is trained, and each layer is asked alone: what the layers
above make of the change is not seen, nor that two heads may write the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from assay.core.model.linear import FactoredLinear, matrix
from compress.scores.subject import Subject
from compress.sparsity.calibration import input_sums


def score(subject: Subject) -> list[Tensor]:
    """One [heads] tensor a layer, >= 0: 0 where a head writes nothing, 1 where it is all that the layer writes, more
    where heads cancel each other."""
    outputs, sizes = subject.outputs(), [size for size in subject.sizes if size]
    moments = input_sums(subject.module, outputs, subject.inputs(), _second_moment)
    found = iter(_lost(*each) for each in zip(outputs, moments, sizes, strict=True))
    return [next(found) if size else torch.zeros(0) for size in subject.sizes]


def _second_moment(read: Tensor) -> Tensor:
    """[in + 1, in + 1] from rows [tokens, in]; the last row and column are those of a constant 1."""
    rows = F.pad(read, (0, 1), value=1.0)
    return rows.T @ rows


@torch.no_grad()
def _lost(output: nn.Module, moment: Tensor, heads: int) -> Tensor:
    """[heads]: square of what each writes, as a share of the square of all that is written."""
    weight = matrix(output).float()
    bias = (output.second if isinstance(output, FactoredLinear) else output).bias
    shift = bias.float() if isinstance(bias, Tensor) else weight.new_zeros(len(weight))
    whole = torch.cat([weight, shift[:, None]], 1)  # [width, in + 1]
    written = ((whole @ moment) * whole).sum()
    slices = weight.unflatten(1, (heads, -1))  # [width, heads, head_dim]
    own = moment[:-1, :-1].unflatten(0, (heads, -1)).unflatten(2, (heads, -1))  # [heads, head_dim, heads, head_dim]
    lost = torch.einsum("whc,hchd,whd->h", slices, own, slices)
    return lost.clamp_min(0) / written.clamp_min(torch.finfo(written.dtype).tiny)
