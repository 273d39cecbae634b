"""How much each head or neuron matters, by the derivative dL(x)/d xi of a row's loss by a mask xi = 1 on the unit.

sensitivity: E_x | dL(x)/d xi | (Michel et al. 2019, eq. 2).
fisher: E_x (dL(x)/d xi)^2, the diagonal of the empirical Fisher matrix of the masks (Kwon et al. 2022).

Both papers write a row x; their released code takes whole batches, in which rows cancel. Here it is the row: each has
its own mask, so one backward pass gives every row's derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor, nn

from compress.losses.task import batch_loss


class Masker(Protocol):
    """Multiplies the outputs of a model's units while the context lasts."""

    def __call__(self, model: nn.Module, *, masks: list[Tensor]) -> AbstractContextManager[None]: ...


def sensitivity(
    model: nn.Module, batches: Iterable[dict[str, Tensor]], sizes: list[int], masker: Masker, task: str
) -> list[Tensor]:
    """Mean absolute derivative: one [size] tensor >= 0 a layer, `sizes` units each.

    `masker` multiplies unit outputs by masks [batch, size], one a layer. `batches` hold the inputs and
    `labels`. More rows lower the noise; 256 are usually enough."""
    return _mean_over_rows(Tensor.abs, model, batches, sizes, masker, task)


def fisher(
    model: nn.Module, batches: Iterable[dict[str, Tensor]], sizes: list[int], masker: Masker, task: str
) -> list[Tensor]:
    """Mean squared derivative; the rest as in `sensitivity`."""
    return _mean_over_rows(Tensor.square, model, batches, sizes, masker, task)


def _mean_over_rows(
    of_derivative: Callable[[Tensor], Tensor],
    model: nn.Module,
    batches: Iterable[dict[str, Tensor]],
    sizes: list[int],
    masker: Masker,
    task: str,
) -> list[Tensor]:
    totals = [torch.zeros(size) for size in sizes]
    rows = 0
    model.eval()
    for batch in batches:
        labels = batch["labels"]
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        masks = [torch.ones(len(labels), size, requires_grad=True) for size in sizes]
        with masker(model, masks=masks), torch.enable_grad():
            loss = batch_loss(model, inputs, labels, task) * len(labels)  # sum over rows
        used = [place for place, size in enumerate(sizes) if size]
        gradients = torch.autograd.grad(loss, [masks[place] for place in used])
        for place, gradient in zip(used, gradients, strict=True):
            totals[place] += of_derivative(gradient).sum(0)
        rows += len(labels)
    return [total / rows for total in totals]


def unit_norm(scores: list[Tensor]) -> list[Tensor]:
    """Each layer scaled to unit L2 norm (Michel et al., following Molchanov et al. 2017), so that layers compare."""
    return [layer / layer.norm().clamp_min(1e-20) for layer in scores]


def keep_best(scores: list[Tensor], fraction: float, per_layer: bool = False, multiple_of: int = 1) -> list[list[int]]:
    """Positions to keep in each layer when `fraction` of all units goes, lowest scores first; every layer keeps one.

    Globally the lowest units of all layers go; `per_layer` removes the same share everywhere. `multiple_of` rounds the
    units kept in each layer up, so that matrix kernels stay on their fast paths."""
    if per_layer:
        kept = [_best(layer, len(layer) - round(len(layer) * fraction)) for layer in scores]
    else:
        kept = _keep_best_of_all(scores, round(sum(map(len, scores)) * fraction))
    return [
        sorted(_best(layer, -(-len(units) // multiple_of) * multiple_of))
        for layer, units in zip(scores, kept, strict=True)
    ]


def _best(layer: Tensor, count: int) -> list[int]:
    return layer.argsort(descending=True, stable=True)[: max(1, min(count, len(layer)))].tolist()


def _keep_best_of_all(scores: list[Tensor], remove: int) -> list[list[int]]:
    order = torch.cat(scores).argsort(stable=True).tolist()
    places = [(layer, unit) for layer, units in enumerate(scores) for unit in range(len(units))]
    kept = [set(range(len(units))) for units in scores]
    for place in order:
        layer, unit = places[place]
        if remove and len(kept[layer]) > 1:
            kept[layer].discard(unit)
            remove -= 1
    return [sorted(units) for units in kept]
