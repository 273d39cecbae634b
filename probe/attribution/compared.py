"""One model's attributions beside the teacher's, on the words that both read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.stats import same_labels
from probe.attribution.agreement import Agreement, agreement

if TYPE_CHECKING:
    from probe.attribution.explained import Explained


@dataclass(frozen=True)
class Compared:
    """One model's attributions, and the teacher's unless it is the teacher."""

    own: Explained
    theirs: Explained | None
    top: int

    @cached_property
    def rows(self) -> list[int]:
        """Texts of which more than `top` words are read, by both models where there are two."""
        return [row for row in range(len(self.own.readings)) if len(self._words(row)) > self.top]

    @property
    def methods(self) -> list[str]:
        """Those that both models have."""
        return [name for name in self.own.words if self.theirs is None or name in self.theirs.words]

    @property
    def shown(self) -> str:
        """The method of the examples."""
        return self.methods[0]

    @property
    def alike(self) -> np.ndarray:
        """[rows]: correlation with the teacher by that method; 0 for the teacher itself."""
        return self._pair(self.shown).spearman if self.theirs else np.zeros(len(self.rows))

    def same_answers(self, task: str) -> np.ndarray:
        """bool [rows]: do both models answer the same? A regression has no answer that flips."""
        if self.theirs is None or task == "text-regression":
            return np.ones(len(self.rows), dtype=bool)
        return same_labels(self.own.logits[self.rows], self.theirs.logits[self.rows], task)

    def with_teacher(self, same: np.ndarray) -> list[dict[str, Any]]:
        """An item for each method and kind of rows."""
        kinds = {"all": np.ones(len(same), dtype=bool), "same answer": same, "flipped": ~same}
        pairs = {name: self._pair(name) for name in self.methods}
        return [
            {"method": name, "rows": kind} | pair.told(kept)
            for name, pair in pairs.items()
            for kind, kept in kinds.items()
        ]

    def between_methods(self) -> list[dict[str, Any]]:
        """An item for each two methods on this model."""
        own = self.own.words
        return [
            {"methods": [a, b]} | agreement(self._chosen(own[a]), self._chosen(own[b]), self.top).told()
            for a, b in combinations(own, 2)
        ]

    def _pair(self, method: str) -> Agreement:
        assert self.theirs is not None
        own, theirs = (self._chosen(found.words[method]) for found in (self.own, self.theirs))
        return agreement(own, theirs, self.top)

    def _chosen(self, words: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [words[row][self._words(row)] for row in self.rows]

    def _words(self, row: int) -> list[int]:
        read = self.own.readings[row].read
        return read if self.theirs is None else sorted(set(read).intersection(self.theirs.readings[row].read))
