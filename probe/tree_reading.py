"""How well trees are read from one model, sentence by sentence, to be laid beside the teacher's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probe.against_teacher import paired_change


@dataclass(frozen=True)
class TreeReading:
    """Plain data (`told`), or why there is none (`skipped`).

    right: by layer, or by whatever else a tree is read from, of each sentence that is whole in the model bool [true
           edges], or any score of the sentence, float [1]
    lines: where each of these sentences begins in its file"""

    skipped: str | None
    told: dict[str, Any] = field(default_factory=dict)
    right: Mapping[Any, list[np.ndarray]] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)

    def change(self, mine: Any, theirs: TreeReading, other: Any) -> dict[str, Any]:
        """The score of layer `mine` less the teacher's of layer `other`, on the sentences that are whole in both."""
        known = dict(zip(theirs.lines, theirs.right[other], strict=True))
        both = [(own, known[line]) for line, own in zip(self.lines, self.right[mine], strict=True) if line in known]
        owners = np.repeat(np.arange(len(both)), [len(own) for own, _ in both])
        own, others = (np.concatenate([[], *part]) for part in zip(*both, strict=True)) if both else ([], [])
        return paired_change(np.array(own, float), np.array(others, float), owners)

    def changes(self, theirs: TreeReading) -> list[dict[str, Any]]:
        """Layer by layer, under original numbers."""
        return [
            {"layer": number} | self.change(number, theirs, number) for number in self.right if number in theirs.right
        ]
