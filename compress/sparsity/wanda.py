"""Weights that matter least for what they multiply go (Sun et al. 2023, "A Simple and Effective Pruning Approach").

score of w_ij = |w_ij| * ||x_j||, the norm of input j over all real tokens of the rows; compared within each output row.
What stays is not changed.
"""

from __future__ import annotations

from torch import Tensor

from compress.sparsity.calibration import layer_by_layer
from compress.sparsity.subject import Subject


def prune(subject: Subject) -> None:
    """In place, layer by layer."""
    for each, energy in layer_by_layer(subject, squared):
        subject.zero([each], [wanda_scores(each.weight, energy)])


def squared(rows: Tensor) -> Tensor:
    """[in]: the sum of squares of each input over [tokens, in]."""
    return rows.square().sum(0)


def wanda_scores(weight: Tensor, energy: Tensor) -> Tensor:
    """[out, in] from a weight of that shape and the sum of squares [in] of its inputs."""
    return weight.abs().float() * energy.sqrt()
