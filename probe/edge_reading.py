"""What the edge probes of one model answer, target by target, to be laid beside the teacher's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from probe.against_teacher import paired_change


@dataclass(frozen=True)
class EdgeReading:
    """Plain data (`told`), or why there is none (`skipped`).

    right:  by layer float [all test targets], 1 where the label is right, 0 where wrong, NaN where the target is not
            whole in the model
    owners: int64 [all test targets], the sentence of each"""

    skipped: str | None
    told: dict[str, Any] = field(default_factory=dict)
    right: dict[int, np.ndarray] = field(default_factory=dict)
    owners: np.ndarray = field(default_factory=lambda: np.array([], dtype=np.int64))

    @classmethod
    def of(cls, told: dict[str, Any], right: Mapping[int, np.ndarray], whole: Sequence[Sequence[bool]]) -> EdgeReading:
        """`right`: by layer bool [whole targets];  `whole`: of each sentence which of its targets are."""
        counts = np.array(list(chain.from_iterable(whole)), dtype=bool)
        spread = {number: np.full(len(counts), np.nan) for number in right}
        for number, answers in right.items():
            spread[number][counts] = answers
        return cls(None, told, spread, np.repeat(np.arange(len(whole)), [len(own) for own in whole]))

    def change(self, theirs: EdgeReading) -> dict[str, Any]:
        """The same with all layers of each."""
        return paired_change(self.right[max(self.right)], theirs.right[max(theirs.right)], self.owners)

    def changes(self, theirs: EdgeReading) -> list[dict[str, Any]]:
        """The share of right labels less the teacher's with the layers up to the same number, on targets that count in
        both."""
        return [
            {"layer": number} | paired_change(right, theirs.right[number], self.owners)
            for number, right in self.right.items()
            if number in theirs.right
        ]
