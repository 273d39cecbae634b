"""Size of a head's weights: the L2 norm of its slice of the output projection.

After Li et al. 2017 ("Pruning Filters for Efficient ConvNets"), who take the L1 norm of a filter. The slice is all that
a head has to write with; its q, k and v only decide what. Needs no rows, so it is the control for scores that do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from assay.core.model.linear import matrix
from compress.scores.subject import Subject


def score(subject: Subject) -> list[Tensor]:
    """|| W_o[:, channels of the head] ||, not scaled by layer."""
    outputs = [matrix(linear).detach().float() for linear in subject.outputs()]
    sizes = [size for size in subject.sizes if size]
    found = iter(
        weight.unflatten(1, (heads, -1)).pow(2).sum((0, 2)).sqrt()  # [width, heads, head_dim] -> [heads]
        for weight, heads in zip(outputs, sizes, strict=True)
    )
    return [next(found) if size else torch.zeros(0) for size in subject.sizes]
