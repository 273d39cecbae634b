"""Second moments of the states between layers on real rows: what each norm makes of the states that it reads, before
its scale, and what it gives where that is a state too. Padding is left out.

Ashkboos et al. 2024 take what a block's norm gives. Here one basis serves all of the model, so each place counts alike,
and each token does in what a norm reads: single tokens and dimensions of trained models are a hundred times as large as
the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from assay.core.model.residual import Norm, Stream
from assay.core.model.rotated_norm import centres, mean_direction
from compress.sparsity.calibration import real_rows


@dataclass
class Seen:
    """`places`: positions of the layers that the norm is in, none where it is outside. `read` and `given`: sums of
    x x^T over real tokens, float64 [width, width], of what it reads, centred as it does and scaled to length 1, and of
    what it gives; None where that is not of the stream."""

    places: tuple[int, ...]
    read: Tensor | None = None
    given: Tensor | None = None

    @property
    def moments(self) -> list[Tensor]:
        """Those there are, each of trace 1."""
        return [each / each.trace() for each in (self.read, self.given) if each is not None]


@torch.no_grad()
def state_moments(model: nn.Module, stream: Stream, batches: Iterable[dict[str, Tensor]]) -> list[Seen]:
    """One a norm of the stream, in its order, the last norm of a tied language model after them."""
    norms = [*stream.norms, *([stream.last_norm] if stream.last_norm else [])]
    found = [Seen(norm.places) for norm in norms]
    for batch in batches:
        real = batch["attention_mask"].bool()
        with ExitStack() as hooks:
            for norm, seen in zip(norms, found, strict=True):
                hook = _adding(norm, seen, real, norm in stream.norms)
                hooks.callback(norm.module.register_forward_hook(hook).remove)
            model(**batch)
    return found


def _adding(norm: Norm, seen: Seen, real: Tensor, reads_states: bool) -> Any:
    def hook(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        if reads_states:
            seen.read = _added(seen.read, _as_read(module, real_rows(args[0], real).double()))
        if not norm.read_by:
            seen.given = _added(seen.given, real_rows(output, real).double())

    return hook


def _as_read(norm: nn.Module, states: Tensor) -> Tensor:
    """[tokens, width] of length 1 each, without what the norm subtracts."""
    if centres(norm):
        mean = mean_direction(norm, states.shape[1]).to(states)
        states = states - (states @ mean)[:, None] * mean
    return nn.functional.normalize(states, dim=1)


def _added(total: Tensor | None, rows: Tensor) -> Tensor:
    moment = rows.T @ rows
    return moment if total is None else total + moment
