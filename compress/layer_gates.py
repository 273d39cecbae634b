"""Let a part of what a layer does through, by hooks of our own: gate 1 is the layer, gate 0 hands its input on.

A gate of 0 gives exactly the logits of the model without that layer. The layer runs all the same; where nothing of its
output is used, its share of the backward pass is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from assay.core.model.anatomy import Family
from assay.core.model.blocks import modules_of


@contextmanager
def layers_gated(model: nn.Module, family: Family, gates: Sequence[Tensor]) -> Iterator[None]:
    """States that leave a layer are input + gate * (output - input); one gate, [] or [1], a present layer."""
    modules = modules_of(model, family)
    turns: dict[int, list[Tensor]] = {}
    for module, gate in zip(modules, gates, strict=True):
        turns.setdefault(id(module), []).append(gate)

    def blend(gates: Iterator[Tensor]) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
        return lambda module, before, after: torch.lerp(before, after, next(gates).to(after.dtype))

    with states_after(modules, lambda module: blend(cycle(turns[id(module)]))):
        yield


@contextmanager
def states_after(
    modules: Sequence[nn.Module], change_of: Callable[[nn.Module], Callable[[nn.Module, Tensor, Tensor], Tensor]]
) -> Iterator[None]:
    """While this lasts each layer hands on `change_of(layer)(layer, states before, states after)` in the place of its
    states, [batch, tokens, width]. A module that stands for several layers is hooked once and asked at each call."""
    handles = [
        module.register_forward_hook(_hand_on(change_of(module)), with_kwargs=True) for module in dict.fromkeys(modules)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hand_on(change: Callable[[nn.Module, Tensor, Tensor], Tensor]) -> Any:
    """Layers take their states as the first argument, by place or by name, and return them alone or first in a tuple,
    by family and version of transformers."""

    def hook(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        before = args[0] if args else next(iter(named.values()))
        if isinstance(output, tuple):
            return (change(module, before.to(output[0].dtype), output[0]), *output[1:])
        return change(module, before.to(output.dtype), output)

    return hook
