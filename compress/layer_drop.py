"""Skip whole layers at random while training (Fan, Grave & Joulin 2020, "Reducing Transformer Depth on Demand with
Structured Dropout").

A model trained so bears the loss of layers: `prune_layers` can take any depth out of it without training again. The
paper drops with p = 0.2 and then keeps every other layer; nothing is rescaled when all layers are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from assay.core.model.anatomy import Family
from assay.core.model.blocks import modules_of
from compress.layer_gates import states_after


@contextmanager
def layers_dropped(model: nn.Module, family: Family, rate: float) -> Iterator[None]:
    """While this lasts each layer in training mode hands its input on with probability `rate`, anew at each call.

    Drawn from torch's own random state, as dropout is, so a training that saves and restores it resumes exactly. The
    draw is one for the whole batch. A dropped layer gets no gradient."""

    def drop(layer: nn.Module, before: Tensor, after: Tensor) -> Tensor:
        return before if layer.training and torch.rand(()) < rate else after

    if not rate:
        yield
        return
    with states_after(modules_of(model, family), lambda layer: drop):
        yield
