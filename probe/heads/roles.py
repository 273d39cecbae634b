"""Roles of heads by where they look: a fixed position, rare tokens (Voita et al. 2019, "Analyzing Multi-Head
Self-Attention", https://aclanthology.org/P19-1580), separators (Clark et al. 2019), the first token (Xiao et al. 2023).

A head is positional when nine in ten tokens look most at the one at a certain distance, as in the paper; tokens that
have none there do not count, as long as they are less than half. Of images these are patches, and distances are steps
down and to the right (`places.py`). The paper names heads for rare tokens by eye; here most rows must have their rarest
token as the head's most attended, and more of them than by chance. Separators are left out as queries. A query that
looks at several tokens alike looks most at none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from assay.core.stats import wilson_interval
from probe.heads.maps import Maps, single_peaks
from probe.heads.places import Line, Plane, Step
from probe.heads.rarity import TokenCounts, rarest

RARE = 0.5  # of the rows
FEWEST_WORDS = 3  # tokens but separators, of rows whose rarest token counts, where not all are equally rare
NAMES = ("positional", "separator", "first token", "rare token", "syntactic")


@dataclass(frozen=True)
class Least:
    """`positional`: share of a head's tokens that look most at one distance; `mass`: mean attention on separators, or
    on the first token. From these on a head has the role."""

    positional: float = 0.9
    mass: float = 0.9


@dataclass
class RoleSums:
    """Running sums of `heads` heads: memory does not grow with rows.

    at_offset, possible: queries that look most at each of the `offsets` of `standing`, and those with a token there,
    [heads, offsets]
    queries, on_separators, on_first [heads]: tokens that look, and their attention that goes there
    rows, on_rarest, by_chance [heads]: rows whose rarest token counts, those where it is the most attended, and the sum
    of the shares of rarest tokens"""

    heads: int
    counts: TokenCounts
    least: Least = Least()
    standing: Line | Plane = field(default_factory=Line)
    at_offset: Tensor = field(init=False)
    possible: Tensor = field(init=False)
    single: dict[str, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.heads, len(self.standing.offsets))
        self.at_offset, self.possible = (torch.zeros(shape, dtype=torch.float64) for _ in range(2))
        names = ("queries", "on_separators", "on_first", "rows", "on_rarest", "by_chance")
        self.single = {name: torch.zeros(self.heads, dtype=torch.float64) for name in names}

    def add(self, maps: Maps) -> None:
        """Count the maps of some rows."""
        self._add_positions(maps)
        self._add_masses(maps)
        self._add_rarest(maps)

    def _add_positions(self, maps: Maps) -> None:
        places = self.standing.places(maps.weights.shape[-1])
        for at, offset in enumerate(self.standing.offsets):
            queries, keys = places.pairs(offset)
            looking = ~maps.special[:, :, queries]
            self.at_offset[:, at] += (looking & (maps.peaks[:, :, queries] == keys)).sum((0, 2))
            self.possible[:, at] += looking.sum((0, 2))

    def _add_masses(self, maps: Maps) -> None:
        looking = ~maps.special
        on_separators = (maps.weights @ maps.special[..., None].float())[..., 0]  # [rows, heads, queries]
        self.single["queries"] += looking.sum((0, 2))
        self.single["on_separators"] += (on_separators * looking).sum((0, 2))
        self.single["on_first"] += (maps.weights[..., 0] * looking).sum((0, 2))

    def _add_rarest(self, maps: Maps) -> None:
        words = ~maps.special
        rare = rarest(self.counts, maps.ids, words)
        counted = (words.sum(-1) >= FEWEST_WORDS) & (rare != words).any(-1)  # [rows, heads]
        most = single_peaks((maps.weights * words[..., None]).sum(2))  # [rows, heads]
        hit = (most >= 0) & rare.gather(2, most.clamp(min=0)[..., None])[..., 0]
        self.single["rows"] += counted.sum(0)
        self.single["on_rarest"] += (counted & hit).sum(0)
        self.single["by_chance"] += (rare.double().mean(-1) * counted).sum(0)

    def told(self) -> list[dict[str, Any]]:
        """Of each head plain data: its roles, and the figures that they are given for."""
        often = self.possible * 2 >= self.single["queries"][:, None]  # else one look at the end would be all there is
        shares = self.at_offset / self.possible.clamp(min=1) * often
        best = shares.argmax(1).tolist()
        offsets = self.standing.offsets
        return [self._of(head, offsets[best[head]], float(shares[head, best[head]])) for head in range(self.heads)]

    def _of(self, head: int, offset: Step, share: float) -> dict[str, Any]:
        told = {
            "offset": list(offset) if len(offset) > 1 else offset[0],
            "offset_share": share,
            "separators": self._share("on_separators", "queries", head),
            "first_token": self._share("on_first", "queries", head),
            "rarest": self._share("on_rarest", "rows", head),
            "rarest_by_chance": self._share("by_chance", "rows", head),
        }
        hits, rows = (int(self.single[name][head]) for name in ("on_rarest", "rows"))
        return {"roles": given_roles(told, hits, rows, self.least), **told}

    def _share(self, part: str, of: str, head: int) -> float:
        return float(self.single[part][head] / self.single[of][head].clamp(min=1))


def given_roles(told: Mapping[str, Any], hits: int, rows: int, least: Least) -> list[str]:
    """The roles that the figures of a head give it, several or none. `hits` of its `rows` are on the rarest token."""
    on_separators = told["separators"] >= least.mass
    has = {
        "positional": told["offset_share"] >= least.positional,
        "separator": on_separators,
        "first token": told["first_token"] >= least.mass and not on_separators,
        "rare token": told["rarest"] >= RARE and wilson_interval(hits, rows)[0] > told["rarest_by_chance"],
    }
    return [name for name, given in has.items() if given]
