"""Which rank each linear map gets, from the spectrum of its singular values."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Spectrum:
    """Squared singular values of a map [outputs, inputs], from the largest down; their sum is its energy."""

    energies: Tensor
    outputs: int
    inputs: int

    @property
    def whole(self) -> int:
        """Parameters of the one matrix."""
        return self.outputs * self.inputs

    def parameters(self, rank: int | None) -> int:
        """Of the two matrices of that rank; None stands for the one."""
        return self.whole if rank is None else rank * (self.outputs + self.inputs)

    def kept(self, rank: int | None) -> float:
        """Share of the energy that the two matrices keep."""
        total = self.energies.sum()
        return 1.0 if rank is None or total == 0 else float(self.energies[:rank].sum() / total)


def ranks_by_energy(spectra: Sequence[Spectrum], energy: float) -> list[int | None]:
    """The lowest rank that keeps that share of each map's energy; None where two matrices would not be smaller."""
    found: list[int | None] = []
    for each in spectra:
        kept = each.energies.cumsum(0) / each.energies.sum().clamp_min(torch.finfo(torch.float32).tiny)
        rank = min(int((kept < energy).sum()) + 1, len(kept))
        found.append(rank if each.parameters(rank) < each.whole else None)
    return found


def ranks_by_budget(spectra: Sequence[Spectrum], budget: float) -> list[int | None]:
    """Ranks with at most `budget` of all the parameters, spent one rank at a time where it brings most energy a
    parameter, each map's energy counted as shares of its own. None: left whole, which is what comes after the last rank
    that is smaller. Every map gets rank 1; where that is more than the budget allows, so is the result."""
    ranks: list[int | None] = [1 if each.parameters(1) < each.whole else None for each in spectra]
    left = budget * sum(each.whole for each in spectra)
    left -= sum(each.parameters(rank) for each, rank in zip(spectra, ranks, strict=True))
    offers: list[tuple[float, int]] = []

    def offer(place: int) -> None:
        each, rank = spectra[place], ranks[place]
        if rank is not None:
            more = _next(each, rank)
            gain, cost = each.kept(more) - each.kept(rank), each.parameters(more) - each.parameters(rank)
            heapq.heappush(offers, (-gain / cost, place))

    for place in range(len(spectra)):
        offer(place)
    while offers:
        _, place = heapq.heappop(offers)
        each, rank = spectra[place], ranks[place]
        assert rank is not None
        more = _next(each, rank)
        cost = each.parameters(more) - each.parameters(rank)
        if cost <= left:
            left -= cost
            ranks[place] = more
            offer(place)
    return ranks


def ranks_by_gates(gates: Sequence[Tensor], costs: Sequence[int], budget: float) -> list[Tensor]:
    """Which ranks stay, True, of each map: those of the lowest gates go, over all maps, until what is left has at most
    `budget` parameters. `costs`: parameters of one rank of each map. Every map keeps one rank; of equal gates the later
    one goes first, which is that of the smaller singular value."""
    kept = [torch.ones_like(each, dtype=torch.bool) for each in gates]
    left = sum(cost * len(each) for cost, each in zip(costs, gates, strict=True))
    places = [(value, -rank, place) for place, each in enumerate(gates) for rank, value in enumerate(each.tolist())]
    for _, rank, place in sorted(places):
        if left > budget and kept[place].sum() > 1:
            kept[place][-rank] = False
            left -= costs[place]
    return kept


def _next(spectrum: Spectrum, rank: int) -> int | None:
    return rank + 1 if spectrum.parameters(rank + 1) < spectrum.whole else None
