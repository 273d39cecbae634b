"""What the edge probes of one model answer, word by word, to be laid beside the teacher's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from probe.against_teacher import paired_change


@dataclass(frozen=True)
class EdgeReading:
    """Plain data (`told`), or why there is none (`skipped`).

    right:  by layer float [all test words], 1 where the relation of the word is right, 0 where wrong, NaN without one
    owners: int64 [all test words], the sentence of each"""

    skipped: str | None
    told: dict[str, Any] = field(default_factory=dict)
    right: dict[int, np.ndarray] = field(default_factory=dict)
    owners: np.ndarray = field(default_factory=lambda: np.array([], dtype=np.int64))

    @classmethod
    def of(
        cls,
        told: dict[str, Any],
        right: dict[int, np.ndarray],
        places: Sequence[Sequence[int]],
        lengths: Sequence[int],
    ) -> EdgeReading:
        """`right`: by layer bool [pairs];  `places`: of each sentence the positions of the pairs' dependent words;
        `lengths`: its number of words."""
        starts = [0, *accumulate(lengths)]
        words = np.array([start + at for start, part in zip(starts, places, strict=False) for at in part], np.int64)
        counted = {}
        for number, pairs in right.items():
            counted[number] = np.full(starts[-1], np.nan)
            counted[number][words] = pairs
        return cls(None, told, counted, np.repeat(np.arange(len(lengths)), lengths))

    def changes(self, theirs: EdgeReading) -> list[dict[str, Any]]:
        """The share of right relations less the teacher's with the layers up to the same number, on words that count in
        both."""
        return [
            {"layer": number} | paired_change(right, theirs.right[number], self.owners)
            for number, right in self.right.items()
            if number in theirs.right
        ]
