"""Where attention heads look, as running sums: memory depends on the number of heads, not on the number of rows.

Only real tokens count, as queries and as keys, so the figures do not depend on how rows were padded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from probe.flow.token_kinds import PatchKinds, TokenKinds
    from probe.heads.maps import HeadList, Maps
    from probe.heads.places import Line, Plane

KINDS = ("separators", "punctuation")


@dataclass
class AttentionSums:
    """Figures of all heads, each a mean; `totals` and `counts` are its parts by name, float64 [heads].

    entropy:     in nats, over all queries
    distance:    in tokens, or in patches of the plane, over all the attention between tokens that have a place
    separators, punctuation: attention on these, over all queries
    steps:       attention on the token itself and on its neighbours, named as `standing` names them, each over the
                 queries that have one there"""

    heads: HeadList
    standing: Line | Plane
    kinds: TokenKinds | PatchKinds
    rows: int = 0
    totals: dict[str, Tensor] = field(init=False)
    counts: dict[str, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        names = ("entropy", "distance", *self.kinds_shown, *self.standing.steps)
        self.totals, self.counts = (
            {name: torch.zeros(len(self.heads.numbers), dtype=torch.float64) for name in names} for _ in range(2)
        )

    @property
    def kinds_shown(self) -> tuple[str, ...]:
        """Images have no punctuation."""
        return tuple(kind for kind in KINDS if kind in self.kinds.names)

    def add(self, maps: Maps) -> None:
        """Count the maps of some rows."""
        rows, _, n, _ = maps.weights.shape
        self.rows += rows
        self._count("entropy", torch.special.entr(maps.weights).sum((0, 2, 3), dtype=torch.float64), rows * n)
        self._add_kinds(maps)
        self._add_places(maps.weights.sum(0, dtype=torch.float64), rows)

    def _add_kinds(self, maps: Maps) -> None:
        received = maps.weights.sum(2, dtype=torch.float64)  # [rows, heads, keys]
        for shifted in self.heads.shifted.unique().tolist():
            mine = (self.heads.shifted == shifted).nonzero()[:, 0]
            kinds = torch.from_numpy(self.kinds.of(maps.ids[:, mine[0]], maps.special[:, mine[0]]))  # [rows, keys]
            for name in self.kinds_shown:
                on = (kinds == self.kinds.names.index(name))[:, None]
                self.totals[name][mine] += (received[:, mine] * on).sum((0, 2))
        for name in self.kinds_shown:
            self.counts[name] += len(received) * received.shape[2]

    def _add_places(self, looks: Tensor, rows: int) -> None:
        """`looks` [heads, tokens, tokens] are summed over so many rows."""
        places = self.standing.places(looks.shape[-1])
        among = looks[:, places.own :, places.own :]
        self._count("distance", (among * places.distances()).sum((1, 2)), among.sum((1, 2)))
        for name, step in self.standing.steps.items():
            queries, keys = places.pairs(step)
            self._count(name, looks[:, queries, keys].sum(1), rows * len(queries))

    def _count(self, name: str, total: Tensor, count: Tensor | int) -> None:
        self.totals[name] += total
        self.counts[name] += count

    def told(self) -> list[dict[str, float | None]]:
        """The figures of each head by name; None where nothing was counted."""
        return [{name: self._mean(name, head) for name in self.totals} for head in range(len(self.heads.numbers))]

    def _mean(self, name: str, head: int) -> float | None:
        count = float(self.counts[name][head])
        return float(self.totals[name][head]) / count if count else None
