"""Sensitivity of the loss to switching a unit off (Michel et al. 2019, eq. 2): what the rows' loss says of it.

Of a neuron it is |activation x gradient| summed over tokens (Molchanov et al. 2017).
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from compress.scores.subject import MASKS, Subject
from compress.scoring import sensitivity, unit_norm


def score(subject: Subject) -> list[Tensor]:
    """Mean | d loss / d mask | over the rows, each layer scaled to unit L2 norm."""
    masker = partial(MASKS[subject.unit], family=subject.family)
    return unit_norm(sensitivity(subject.module, subject.batches, subject.sizes, masker, subject.task))
