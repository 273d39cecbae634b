"""What `ablate.py` finds, of many batches: as many at the same time as torch has threads, one thread each.

That is faster than all threads on one batch, whose products are small. A cut hooks modules and takes layers out while
it is looked at, so each thread has a copy of the model; copies share the weights and cost no memory to speak of.

Batches should be small: the layer of a cut runs its attention anew in each pass, so it pays when a batch with all the
heads of a layer cut in turn fits one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from itertools import chain
from threading import get_ident
from typing import TypeVar

from torch import Tensor, nn

from assay.core.model.ablate import Cut, Inputs, logits_without
from assay.core.model.anatomy import Family
from assay.core.model.at_once import at_once, one_torch_thread_each

Module = TypeVar("Module", bound=nn.Module)
TOKENS_A_THREAD = 2048  # in a pass; the fastest of 1024 to 4096 for a BERT of width 384 on two cores


def logits_without_of_each(
    model: nn.Module, family: Family, batches: Sequence[Inputs], cuts: Sequence[Cut]
) -> Iterator[tuple[Tensor, Tensor]]:
    """`logits_without` of each batch, in order; with the longest first no thread waits long for the last one.

    Each thread has about TOKENS_A_THREAD tokens under way. The model stays as it is. Errors as there."""

    @cache
    def own(thread: int) -> nn.Module:
        return with_same_weights(model)

    def answer(inputs: Inputs) -> tuple[Tensor, Tensor]:
        return logits_without(own(get_ident()), family, inputs, cuts, TOKENS_A_THREAD)

    with one_torch_thread_each() as workers:
        yield from at_once(answer, batches, workers)


def with_same_weights(model: Module) -> Module:
    """A copy of all modules with their hooks, which can be hooked and rearranged apart, on the very same parameters and
    buffers."""
    return deepcopy(model, {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())})
