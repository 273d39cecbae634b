"""Heads that follow a syntactic relation: how often a word looks most at its head, or a head at its dependent (Voita et
al. 2019, section 5.2.2; Clark et al. 2019, section 4.2).

The word itself is left out of what it can look at most. Beside each share stands that of the best fixed distance of the
two words of the relation. A head is syntactic when one of its shares is at least 10 points above that, as in Voita
et al., with the lower bound of its interval above it too, in a relation of at least 50 pairs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from assay.core.stats import wilson_interval
from probe.treebank import UNKNOWN, Sentence

ABOVE = 0.1
FEWEST_PAIRS = 50
DIRECTIONS = ("to its head", "to its dependent")


@dataclass
class RelationSums:
    """Of each relation (DEPREL without subtype) the pairs by distance, and how many each head follows in either
    direction, int64 [heads, 2]."""

    heads: int
    distances: dict[str, Counter[int]] = field(default_factory=dict)
    followed: dict[str, Tensor] = field(default_factory=dict)

    def add(self, sentence: Sentence, peaks: Tensor) -> None:
        """One sentence, and the word that each word looks at most, [heads, words]; the root has no pair."""
        for word, (head, label) in enumerate(zip(sentence.heads, sentence.deprel, strict=True)):
            if head is None or head < 0 or label == UNKNOWN:
                continue
            relation = label.partition(":")[0]
            self.distances.setdefault(relation, Counter())[head - word] += 1
            hits = torch.stack([peaks[:, word] == head, peaks[:, head] == word], dim=1)
            self.followed[relation] = self.followed.get(relation, torch.zeros(self.heads, 2, dtype=torch.int64)) + hits

    def told(self) -> list[list[dict[str, Any]]]:
        """For each head the relations that it follows, the clearest first; most heads follow none."""
        return [
            sorted(self._of(head), key=lambda found: found["baseline"] - found["share"]) for head in range(self.heads)
        ]

    def _of(self, head: int) -> list[dict[str, Any]]:
        return [
            {"relation": relation, "looks": direction, "share": hits / n, "baseline": by_distance, "n": n}
            for relation, (n, by_distance) in self._baselines().items()
            for direction, hits in zip(DIRECTIONS, self.followed[relation][head].tolist(), strict=True)
            if is_followed(hits, n, by_distance)
        ]

    def _baselines(self) -> dict[str, tuple[int, float]]:
        """(pairs, share of those at the commonest distance) of each relation, by name."""
        totals = {name: (sum(found.values()), max(found.values())) for name, found in sorted(self.distances.items())}
        return {name: (n, most / n) for name, (n, most) in totals.items()}


def is_followed(hits: int, pairs: int, baseline: float) -> bool:
    """Whether so many of the pairs are clearly more than the baseline's share."""
    enough = pairs >= FEWEST_PAIRS and hits / pairs >= baseline + ABOVE
    return enough and wilson_interval(hits, pairs)[0] > baseline
