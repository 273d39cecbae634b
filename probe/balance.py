"""Examples of a task with as many of each class, so that the majority tells nothing, and where classes would differ by
something simple such as length, as many in each stratum of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from probe.drawn_share import drawn_share
from probe.tasks import Examples

SplitName = Literal["train", "test"]


@dataclass(frozen=True)
class Item:
    """A text that a task can ask about, the name of its class, and what must not tell the classes apart. `made_of`: the
    text that it was before it was changed."""

    text: str
    label: str
    stratum: Hashable = None
    made_of: str | None = None

    @property
    def origin(self) -> str:
        """Items of one origin are not two."""
        return self.made_of or self.text


def balanced(items: Iterable[Item], classes: Sequence[str], count: int, seed: int) -> Examples:
    """At most `count` items, as many of each class in every stratum, drawn by chance; labels are places in `classes`.
    Of several of one origin one is taken."""
    rng = np.random.default_rng(seed)
    once = list({item.origin: item for item in items}.values())
    cells: dict[Hashable, dict[str, list[Item]]] = defaultdict(lambda: {name: [] for name in classes})
    for at in rng.permutation(len(once)).tolist():
        if once[at].label in classes:
            cells[once[at].stratum][once[at].label].append(once[at])
    groups = [group for cell in cells.values() for group in zip(*cell.values(), strict=False)]  # one of each class
    taken = [groups[at] for at in rng.permutation(len(groups))[: count // max(1, len(classes))]]
    places = {name: place for place, name in enumerate(classes)}
    rows = [item for group in taken for item in group]
    return Examples([item.text for item in rows], np.array([places[item.label] for item in rows], dtype=np.int64))


def commonest(items: Iterable[Item], most: int) -> list[str]:
    """The names of the most frequent classes, those first."""
    return [name for name, _ in Counter(item.label for item in items).most_common(most)]


def side_of(word: str, test_share: float, seed: int) -> SplitName:
    """Whether a word that a task turns on may stand in training or in test rows: in one of them only, so that a probe
    cannot know the word. `test_share` in [0, 1] of the words are for test rows."""
    return "test" if drawn_share(word, seed, "side ") < test_share else "train"
