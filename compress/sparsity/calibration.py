"""What linear maps read on real rows, one layer after the other, so that memory does not grow with depth.

Each layer is looked at after those below it are pruned, by passes of the whole model that stop where the next layer
begins. Padding is left out. Costs half a forward pass of all rows a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby

import torch
from torch import Tensor, nn

from assay.core.model.outputs import real_tokens
from compress.sparsity.matrices import Matrix
from compress.sparsity.subject import Subject

Moment = Callable[[Tensor], Tensor]


class _Seen(Exception):
    """All that was asked for has been read; the rest of the pass is not needed."""


def layer_by_layer(subject: Subject, moment: Moment) -> Iterator[tuple[Matrix, Tensor]]:
    """Each matrix with the sum of `moment` over the inputs of its map; the caller prunes it before it asks for more.

    `moment` turns rows [tokens, in] into a tensor that can be added up."""
    layers = [list(group) for _, group in groupby(subject.matrices, lambda each: each.group)]
    ends = [layer[0].module for layer in layers[1:]]
    for layer, end in zip(layers, [*ends, None], strict=True):
        sums = input_sums(subject.module, [each.module for each in layer], subject.batches, moment, end)
        yield from zip(layer, sums, strict=True)


@torch.no_grad()
def input_sums(
    model: nn.Module,
    linears: Sequence[nn.Module],
    batches: Sequence[dict[str, Tensor]],
    moment: Moment,
    until: nn.Module | None = None,
) -> list[Tensor]:
    """The sum of `moment` over all real tokens that each of `linears` reads; a pass stops where `until` is called."""
    sums: dict[nn.Module, Tensor] = {}
    for batch in batches:

        def add(linear: nn.Module, args: tuple[Tensor, ...], batch: dict[str, Tensor] = batch) -> None:
            states = real_rows(args[0], real_tokens(batch, args[0]))
            sums[linear] = sums.get(linear, torch.zeros(())) + moment(states.float())

        with ExitStack() as hooks, suppress(_Seen):
            for linear in linears:
                hooks.callback(linear.register_forward_pre_hook(add).remove)
            if until is not None:
                hooks.callback(until.register_forward_pre_hook(_stop).remove)
            model(**batch)
    return [sums[linear] for linear in linears]


def real_rows(states: Tensor, real: Tensor) -> Tensor:
    """[tokens, in]: `states` [batch, tokens, in] where `real` [batch, tokens] is true.

    States of another shape are not the batch's tokens but relative positions or pooled texts; they all count."""
    if states.shape[:-1] == real.shape:
        return states[real]
    return states.flatten(0, -2)


def _stop(module: nn.Module, args: object) -> None:
    raise _Seen
