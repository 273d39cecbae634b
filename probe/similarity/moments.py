"""Second moments of the states of two models over the same rows, summed as rows stream by.

Memory depends on layers and widths, not on the number of rows. All sums are of vectors less a fixed shift near their
mean, since hidden states have a few very large components that are nearly constant; what is left of the mean is taken
off at the end, so the results are exactly those of centred vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch

TENSORS = ("total", "norms", "products", "weighted", "cross")


class Moments:
    """States are numbered through: those of the first model, then, from `first` on, those of the second.

    n:        rows
    total:    [widths] sum of the rows of all states, side by side
    norms:    [states] sum of squared norms
    products: [states, states] sum of products of squared norms
    weighted: [widths, states] sum of rows times the squared norm that another state has in that row
    gram:     one [width, width] a state, X^T X
    cross:    [widths of the first model, widths of the second], X^T Y of all pairs of layers"""

    def __init__(self, x_shift: Sequence[torch.Tensor], y_shift: Sequence[torch.Tensor]) -> None:
        """Each shift is one [width] a state, any vector near the mean of its rows."""
        self.shift, self.first, self.n = [*x_shift, *y_shift], len(x_shift), 0
        widths = [len(shift) for shift in self.shift]
        states, width, x_width = len(widths), sum(widths), sum(widths[: self.first])
        self.spans = [slice(sum(widths[:at]), sum(widths[: at + 1])) for at in range(states)]
        self.total = torch.zeros(width, dtype=torch.float64)
        self.norms = torch.zeros(states, dtype=torch.float64)
        self.products = torch.zeros(states, states, dtype=torch.float64)
        self.weighted = torch.zeros(width, states, dtype=torch.float64)
        self.gram = [torch.zeros(each, each) for each in widths]
        self.cross = torch.zeros(x_width, width - x_width)

    def add(self, x: Sequence[torch.Tensor], y: Sequence[torch.Tensor]) -> None:
        """Count rows: one [rows, width] a state of each model, float32, the same rows in all."""
        rows = [state - shift for state, shift in zip([*x, *y], self.shift, strict=True)]
        beside, norms = torch.cat(rows, 1), torch.stack([state.square().sum(1) for state in rows], 1).double()
        self.n += len(norms)
        self.total += beside.double().sum(0)
        self.norms += norms.sum(0)
        self.products += norms.T @ norms
        self.weighted += beside.double().T @ norms
        for gram, state in zip(self.gram, rows, strict=True):
            gram.addmm_(state.T, state)
        x_width = len(self.cross)
        self.cross.addmm_(beside[:, :x_width].T, beside[:, x_width:])

    def without(self, part: Moments) -> Moments:
        """These moments less those of some of the rows, which were shifted by the same vectors."""
        rest = copy(self)
        rest.n = self.n - part.n
        rest.gram = [whole - less for whole, less in zip(self.gram, part.gram, strict=True)]
        for name in TENSORS:
            setattr(rest, name, getattr(self, name) - getattr(part, name))
        return rest

    @property
    def pairs(self) -> list[list[tuple[int, int]]]:
        """The numbers of each state of the first model with each of the second, [states, states]."""
        second = range(self.first, len(self.spans))
        return [[(one, other) for other in second] for one in range(self.first)]

    def centred(self, one: int, other: int) -> torch.Tensor:
        """[width, width] X^T Y of centred rows, float64: of a state with itself, or across the models in that order."""
        return self._second(one, other) - self.n * torch.outer(self._rest(one), self._rest(other))

    def scatter(self, one: int) -> float:
        """Sum of squared norms of the centred rows of a state."""
        return float(self.norms[one] - self.n * self._rest(one).square().sum())

    def coupled_norms(self, one: int, other: int) -> float:
        """Sum over rows of |x|^2 |y|^2 of centred rows, written out from the sums of shifted ones."""
        x, y = self._rest(one), self._rest(other)
        xx, yy = x.square().sum(), y.square().sum()
        mixed = y @ self.weighted[self.spans[other], one] + x @ self.weighted[self.spans[one], other]
        lengths = yy * self.norms[one] + xx * self.norms[other]
        both = 4 * x @ self._second(one, other) @ y - 3 * self.n * xx * yy
        return float(self.products[one, other] - 2 * mixed + lengths + both)

    def _rest(self, one: int) -> torch.Tensor:
        """The mean of a state's rows less its shift."""
        return self.total[self.spans[one]] / self.n

    def _second(self, one: int, other: int) -> torch.Tensor:
        if one == other:
            return self.gram[one].double()
        start = self.spans[self.first].start
        columns = self.spans[other]
        return self.cross[self.spans[one], columns.start - start : columns.stop - start].double()
