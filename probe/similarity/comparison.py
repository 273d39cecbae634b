"""Two models over the same rows: what streams by is summed, and every measure of likeness is made from the sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from probe.similarity.cka import cka_matrix, linear_cka
from probe.similarity.jackknife import GROUPS, jackknife_spread
from probe.similarity.moments import Moments
from probe.similarity.procrustes import procrustes_distance
from probe.similarity.rsa import rsa_matrix
from probe.similarity.svcca import svcca

Matrix = list[list[float | None]]


class Comparison:
    """`numbers` are the layer numbers of the first and of the second model. At most `keep` rows are
    kept for RSA, `n_kept` so far."""

    def __init__(self, numbers: tuple[Sequence[int], Sequence[int]], keep: int) -> None:
        self.numbers, self.keep, self.n_kept = numbers, keep, 0
        self.moments, self.last = Moments([], []), Moments([], [])
        self.groups: dict[int, Moments] = {}
        self.kept: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []

    @property
    def n(self) -> int:
        """Rows counted."""
        return self.moments.n

    def add(self, x: Sequence[torch.Tensor], y: Sequence[torch.Tensor], lone: torch.Tensor, part: int) -> None:
        """Count rows: one [rows, width] a layer of each model. `lone` are the rows that RSA may keep, one of each text;
        texts with the same `part` fall into one group of the jackknife."""
        if not len(x[0]):
            return
        if not self.n:
            self.moments = Moments(*self._shifts(x, y))
            self.last = Moments(*self._shifts(x[-1:], y[-1:]))
        self.moments.add(x, y)
        for moments in (self.last, self._group(part % GROUPS)):
            moments.add(x[-1:], y[-1:])
        chosen = lone[: self.keep - self.n_kept]
        self.n_kept += len(chosen)
        self.kept.append(([layer[chosen] for layer in x], [layer[chosen] for layer in y]))

    def matrices(self, debiased: bool, variance: float, every_pair: bool) -> dict[str, Matrix]:
        """cka, rsa, svcca and procrustes: a row for each layer of the first model, a column for each of the second,
        None where there is no such figure. SVCCA and Procrustes decompose a matrix a pair: unless `every_pair`, only
        pairs of one layer number, and the pair of the two last layers, have them."""
        x, y = ([torch.cat(parts) for parts in zip(*side, strict=True)] for side in zip(*self.kept, strict=True))
        costly: dict[str, Callable[[int, int], float]] = {
            "svcca": partial(svcca, self.moments, variance=variance),
            "procrustes": partial(procrustes_distance, self.moments),
        }
        cheap = {"cka": cka_matrix(self.moments, debiased), "rsa": rsa_matrix(x, y)}
        return {name: _plain(matrix) for name, matrix in cheap.items()} | {
            name: _plain(self._some_pairs(measure, every_pair)) for name, measure in costly.items()
        }

    def last_layer_interval(self, debiased: bool, value: float | None) -> tuple[float, float] | None:
        """95 % interval, over texts, of the CKA `value` of the two last layers; at most 1 where the value is."""
        spread = jackknife_spread(
            list(self.groups.values()), self.last, lambda moments: linear_cka(moments, 0, 1, debiased)
        )
        return None if spread is None or value is None else (value - spread, max(value, min(1.0, value + spread)))

    def _group(self, number: int) -> Moments:
        if number not in self.groups:
            self.groups[number] = Moments(self.last.shift[:1], self.last.shift[1:])
        return self.groups[number]

    def _shifts(self, *models: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
        return [[rows.mean(0) for rows in layers] for layers in models]

    def _some_pairs(self, measure: Callable[[int, int], float], every: bool) -> list[list[float]]:
        own, theirs = self.numbers
        return [
            [
                measure(*pair) if every or mine == other or (mine, other) == (own[-1], theirs[-1]) else math.nan
                for other, pair in zip(theirs, row, strict=True)
            ]
            for mine, row in zip(own, self.moments.pairs, strict=True)
        ]


def same_layer(matrix: Matrix, numbers: tuple[Sequence[int], Sequence[int]]) -> list[float]:
    """The entries, where there are any, of layers that are in both models under one number; the embedding output, which
    is number 0 and hardly changes, is left out."""
    own, theirs = numbers
    found = [matrix[own.index(number)][theirs.index(number)] for number in own if number and number in theirs]
    return [value for value in found if value is not None]


def _plain(matrix: Sequence[Sequence[float]]) -> Matrix:
    return [[value if math.isfinite(value) else None for value in row] for row in matrix]
