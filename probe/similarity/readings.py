"""All that is summed over the texts: both comparisons with the teacher, and the shape of a model's own vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from probe.geometry.cloud import Cloud
from probe.layer_vectors import LayerVectors, first_of_each
from probe.similarity.comparison import Comparison


@dataclass
class Readings:
    """`own` and `theirs` are the layers that are looked at, by number; `all_own` and `all_theirs` those that the models
    have. `keep` rows are kept where pairs of rows are compared. `unlike` counts the texts in which the models read
    other tokens."""

    own: Sequence[int]
    theirs: Sequence[int]
    all_own: Sequence[int]
    all_theirs: Sequence[int]
    keep: int
    unlike: int = 0
    texts: Comparison = field(init=False)
    tokens: Comparison = field(init=False)
    cloud: Cloud = field(init=False)

    def __post_init__(self) -> None:
        self.texts, self.tokens = (Comparison((self.own, self.theirs), self.keep) for _ in range(2))
        self.cloud = Cloud(self.keep)

    def add(self, own: LayerVectors, theirs: LayerVectors, part: int) -> None:
        """Count the vectors of some texts in both models; `part` numbers the groups of the jackknife."""
        mine, other = self._chosen(own, theirs)
        self.texts.add(mine.texts, other.texts, torch.arange(len(own.ids)), part)
        self.cloud.add(mine.tokens, first_of_each(mine.owners))
        same = torch.tensor([one == two for one, two in zip(own.ids, theirs.ids, strict=True)])
        self.unlike += int((~same).sum())
        (x, owners), (y, _) = mine.of_texts(same), other.of_texts(same)
        self.tokens.add(x, y, first_of_each(owners), part)

    def _chosen(self, own: LayerVectors, theirs: LayerVectors) -> list[LayerVectors]:
        """The vectors of the layers that are looked at."""
        models = ((own, self.own, self.all_own), (theirs, self.theirs, self.all_theirs))
        return [vectors.of_layers([known.index(number) for number in chosen]) for vectors, chosen, known in models]


def spaced(numbers: Sequence[int], most: int) -> list[int]:
    """At most `most` >= 2 of the numbers, evenly spaced, the first and the last among them."""
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[round(at * (len(numbers) - 1) / (most - 1))] for at in range(most)]


def chosen_layers(own: Sequence[int], theirs: Sequence[int], most: int) -> tuple[list[int], list[int]]:
    """Layers to look at in both models: at most `most` of the first; of the second those of the same numbers, its last,
    and others, evenly spaced, where there is room."""
    mine = spaced(own, most)
    shared = {number for number in mine if number in theirs} | {theirs[-1]}
    others = [number for number in theirs if number not in shared]
    room = max(most - len(shared), 0)
    extra = others if len(others) <= room else spaced(others, room) if room >= 2 else []
    return mine, sorted(shared | set(extra))
