"""What the loss rises by without a unit, to second order: the diagonal of the empirical Fisher matrix of the masks.

Optimal brain damage (LeCun et al. 1990) for masks instead of weights (Kwon et al. 2022, "A Fast Post-Training Pruning
Framework for Transformers"): at the end of training the mean derivative is about zero and the Hessian about the Fisher
matrix, so that a mask that goes from 1 to 0 costs half of its diagonal. That is one scale for the whole model, so the
layers are not scaled. The paper goes on to rearrange masks within a layer and to tune those that stay; this does not.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from compress.scores.subject import MASKS, Subject
from compress.scoring import fisher


def score(subject: Subject) -> list[Tensor]:
    """Half of the mean squared derivative of a row's loss by the mask, in units of the loss; not scaled by layer."""
    masker = partial(MASKS[subject.unit], family=subject.family)
    return [layer / 2 for layer in fisher(subject.module, subject.batches, subject.sizes, masker, subject.task)]
