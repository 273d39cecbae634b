"""Change what leaves a layer of a live model, while it is on the way to the next: by a hook of our own.

Nothing of the model is altered. With a map that erases a concept from the states this is amnesic probing (Elazar et
al. 2021, https://arxiv.org/abs/2006.00995)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from assay.core.errors import AssayError
from assay.core.model.anatomy import Family
from assay.core.model.blocks import modules_of, turns


@contextmanager
def change_states(
    model: nn.Module, family: Family, position: int, change: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[None]:
    """Hand on `change(states)` in the place of the states [batch, tokens, width] that leave a layer.

    `position` counts the layers that are present, from 0; other layers of the same weights hand on what they have.
    AssayError where a change of shape comes back."""
    blocks = modules_of(model, family)
    handle = blocks[position].register_forward_hook(_pass_on(change, turns(blocks, position)))
    try:
        yield
    finally:
        handle.remove()


def _pass_on(change: Callable[[torch.Tensor], torch.Tensor], turn: Iterator[bool]) -> Any:
    """Layers return their states alone or first in a tuple, by family and version of transformers."""

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        if not next(turn):
            return output
        states = output[0] if isinstance(output, tuple) else output
        changed = change(states)
        if changed.shape != states.shape:
            raise AssayError(f"changed states are {list(changed.shape)}, the layer's are {list(states.shape)}")
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    return hook
