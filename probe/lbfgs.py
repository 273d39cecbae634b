"""Many logistic regressions on the same rows minimised at once, each by its own L-BFGS, sharing the matrix products.

The problems are those of `probe/classifiers.py` after whitening: with V the whitened weights and U = V Z the logits,

    F(V) = C sum_i (A(u_i) - <y_i, u_i>) + |V|^2 / 2 - C c |U|^2 / 2,

A the log-partition of a logistic or softmax model. Whitening made the Hessian nearly the identity, so that a plain step
is nearly Newton's. A step costs two matrix products, whatever the number of lengths that are tried, since logits are
linear in the weights.

Limited memory BFGS: Nocedal 1980; the two loops are algorithm 7.4 of Nocedal and Wright (2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

MEMORY = 8  # pairs of steps and changes of gradient that the two loops remember
OVERSHOOT = 0.5  # a step may end where the slope has turned to at most this share of what it was
TRIES = 20


@dataclass(frozen=True)
class Problems:
    """Problems side by side: the outputs of the first, of the second, and so on.

    features:  whitened, [width, rows];  targets: 0 or 1, [outputs, rows]
    sizes:     outputs of each problem: 1 is logistic, more a softmax with one target of 1 a row
    strength:  C;  curvature: c"""

    features: Tensor
    targets: Tensor
    sizes: Sequence[int]
    strength: float
    curvature: float

    def only(self, outputs: Tensor) -> Problems:
        """Those to which these outputs (bool, all or none of a problem) belong."""
        last = torch.tensor(self.sizes).cumsum(0) - 1
        sizes = [size for size, stays in zip(self.sizes, outputs[last].tolist(), strict=True) if stays]
        return replace(self, targets=self.targets[outputs], sizes=sizes)

    @cached_property
    def together(self) -> Tensor:
        """[outputs, outputs]: 1 where two outputs belong to one problem."""
        owner = torch.repeat_interleave(torch.tensor(self.sizes))
        return (owner[:, None] == owner).to(self.features.dtype)

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """(size, outputs) of each run of neighbouring problems of one size."""
        sizes, counts = torch.tensor(self.sizes).unique_consecutive(return_counts=True)
        return [(size, size * count) for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)]

    def inner(self, first: Tensor, second: Tensor) -> Tensor:
        """[outputs, 1]: for each output, the inner product of its problem's parts of two arrays [outputs, any]."""
        return self.together @ (first * second).sum(1, keepdim=True)

    def pull(self, logits: Tensor) -> Tensor:
        """Derivative of all but |V|^2 / 2 by the logits, both [outputs, rows]."""
        expected = torch.cat(
            [
                part.sigmoid() if size == 1 else part.unflatten(0, (-1, size)).softmax(1).flatten(0, 1)
                for part, (size, _) in zip(logits.split([outputs for _, outputs in self.runs]), self.runs, strict=True)
            ]
        )
        return expected.sub_(self.targets).sub_(logits, alpha=self.curvature).mul_(self.strength)

    def gradient(self, weights: Tensor, pull: Tensor) -> Tensor:
        """[outputs, width]."""
        return torch.addmm(weights, pull, self.features.T)


@dataclass(frozen=True)
class Minimum:
    """weights [outputs, width]; steps (int64) and gap [outputs], alike for the outputs of a problem. The gap estimates
    how far F is above its minimum, in nats a row."""

    weights: Tensor
    steps: Tensor
    gap: Tensor


class _Step(NamedTuple):
    change: Tensor
    of_gradient: Tensor
    weight: Tensor  # 1 / <change, of_gradient>, 0 where rounding left no curvature


class _Point(NamedTuple):
    """Where the problems are that are not done, how they came there, and where to."""

    weights: Tensor
    logits: Tensor
    gradient: Tensor
    history: list[_Step]
    direction: Tensor

    def only(self, outputs: Tensor) -> _Point:
        """Of these outputs alone."""
        weights, logits, gradient, history, direction = self
        kept = [_Step(*(part[outputs] for part in step)) for step in history]
        return _Point(weights[outputs], logits[outputs], gradient[outputs], kept, direction[outputs])


def minimise(problems: Problems, tolerance: float, most_steps: int) -> Minimum:
    """Until the gap of each problem is at most `tolerance`, or `most_steps` are done. Problems leave when they are
    done, and the others go on by themselves."""
    point = _start(problems)
    places = torch.arange(len(problems.targets))
    found = Minimum(torch.zeros_like(point.weights), torch.zeros_like(places), point.weights.new_zeros(len(places)))
    for steps in range(most_steps + 1):
        gap = _gap(problems, point)
        far = gap > tolerance
        leave = ~far if steps < most_steps else torch.ones_like(far)
        for kept, now in zip((found.weights, found.gap), (point.weights, gap), strict=True):
            kept[places[leave]] = now[leave]
        found.steps[places[leave]] = steps
        if leave.all():
            break
        if leave.any():
            problems, point, places = problems.only(far), point.only(far), places[far]
        point = _advance(problems, point)
    return found


def _start(problems: Problems) -> _Point:
    weights = problems.features.new_zeros(len(problems.targets), len(problems.features))
    logits = torch.zeros_like(problems.targets)
    gradient = problems.gradient(weights, problems.pull(logits))
    return _Point(weights, logits, gradient, [], -gradient)


def _gap(problems: Problems, point: _Point) -> Tensor:
    """[outputs]: what a full step would gain if F were the quadratic that the history tells of (half of Newton's
    squared decrement)."""
    gain = -problems.inner(point.gradient, point.direction)[:, 0] / 2
    return gain / (problems.strength * problems.targets.shape[1])


def _advance(problems: Problems, point: _Point) -> _Point:
    moved = point.direction @ problems.features
    length, pull = _line_search(problems, point, moved)
    change = length * point.direction
    weights = point.weights + change
    gradient = problems.gradient(weights, pull)
    history = [*point.history, _step(problems, change, gradient - point.gradient)][-MEMORY:]
    return _Point(weights, point.logits + length * moved, gradient, history, _direction(problems, gradient, history))


def _direction(problems: Problems, gradient: Tensor, history: list[_Step]) -> Tensor:
    """Minus the inverse of the Hessian that the history tells of, times the gradient."""
    found, shares = gradient, []
    for step in reversed(history):
        shares.append(step.weight * problems.inner(step.change, found))
        found = found - shares[-1] * step.of_gradient
    found = found * _scale(problems, history)
    for step, share in zip(history, reversed(shares), strict=True):
        found = found + (share - step.weight * problems.inner(step.of_gradient, found)) * step.change
    return -found


def _scale(problems: Problems, history: list[_Step]) -> Tensor:
    """<s, y> / <y, y> of the last step, 1 where rounding left no curvature."""
    size = history[-1].weight * problems.inner(history[-1].of_gradient, history[-1].of_gradient)
    return torch.where(size > 0, 1 / size, 1.0)


def _line_search(problems: Problems, point: _Point, moved: Tensor) -> tuple[Tensor, Tensor]:
    """(step length [outputs, 1], pull there). F is convex along a line: where the slope at the end has turned upwards
    too far, the length goes back to the root of the slope's secant, which lies in between."""
    direction = point.direction
    along, square = problems.inner(point.weights, direction), problems.inner(direction, direction)
    start = problems.inner(point.gradient, direction)
    length = (start < 0).to(square)  # rounding may hide the descent next to the minimum
    for _ in range(TRIES):
        pull = problems.pull(point.logits + length * moved)
        slope = along + length * square + problems.inner(pull, moved)
        far = slope > -OVERSHOOT * start
        if not far.any():
            break
        length = torch.where(far, length * start / (start - slope), length)
    return length, pull


def _step(problems: Problems, change: Tensor, of_gradient: Tensor) -> _Step:
    product = problems.inner(change, of_gradient)
    return _Step(change, of_gradient, torch.where(product > 0, 1 / product, 0.0))
