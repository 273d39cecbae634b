"""Weights that are exactly zero stay so while a model trains.

Their gradients are zeroed before any optimizer sees them, so its moments stay zero, and decay shrinks zero to zero.
Which ones they are is read from the weights themselves before training: nothing has to be kept beside the model, and a
resumed training, which starts from the same source, holds the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor

from compress.sparsity.matrices import Matrix


@contextmanager
def zeros_held(matrices: Sequence[Matrix]) -> Iterator[int]:
    """Gives the number of zeros held while the context lasts."""
    with ExitStack() as hooks:
        count = 0
        for each in matrices:
            parameter = each.parameter
            zero = parameter.detach() == 0
            held = int(zero.sum())
            count += held
            if held and parameter.requires_grad:
                hooks.callback(parameter.register_hook(_without(zero)).remove)
        yield count


def _without(zero: Tensor) -> Any:
    return lambda gradient: gradient.masked_fill(zero.to(gradient.device), 0)
