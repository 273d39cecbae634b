"""Seeded, stratified choice of rows, for splits and samples.

Rows with the same text form a group and stay together, so that no text is trained on and tested on. A stratum is a
class; for regression a tenth of the targets; for multi-label a combination of labels, the rare ones pooled.
Rare classes: every class keeps at least one group for training, so one with a single text is never tested on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import floor

import numpy as np

from assay.core.errors import InputError

POOLED = 5  # label combinations of fewer rows share one stratum
BINS = 10  # strata of regression targets


def strata(labels: np.ndarray) -> np.ndarray:
    """Stratum of each row, int64 [n], from labels shaped as in `Split`."""
    if labels.ndim == 2:
        _, combination, count = np.unique(labels, axis=0, return_inverse=True, return_counts=True)
        combination = combination.reshape(-1)
        return np.where(count[combination] < POOLED, -1, combination)
    if labels.dtype.kind == "f":
        return np.searchsorted(np.quantile(labels, np.linspace(0, 1, BINS + 1)[1:-1]), labels)
    return labels


def sample(labels: np.ndarray, size: int, seed: int) -> list[int]:
    """Positions of a stratified sample of `size` rows, ascending; every class has a row in it while places last."""
    if size >= len(labels):
        return list(range(len(labels)))
    members = _members(strata(labels), np.random.default_rng(seed))
    quotas = _quotas({name: len(rows) for name, rows in members.items()}, size, floor_each=1)
    return sorted(row for name, rows in members.items() for row in rows[: quotas[name]])


def split_rows(
    texts: Sequence[str], labels: np.ndarray, test: int | float, validation: int | float, seed: int
) -> tuple[list[int], list[int], list[int]]:
    """Positions of train, validation and test rows, each in seeded random order.

    Sizes are rows (int) or shares of all rows (float); 0 for none. Groups of equal texts may leave a split a few rows
    short of its size, never over. Raises InputError where too few rows are left for training."""
    rng = np.random.default_rng(seed)
    groups = _groups(texts)
    group_strata = strata(labels)[[rows[0] for rows in groups]]
    left = {name: [groups[i] for i in rows] for name, rows in _members(group_strata, rng).items()}
    held_out = []
    for size in (test, validation):
        rows = size if isinstance(size, int) else max(1, round(size * len(texts)))
        held_out.append(_draw(left, rows, f"split.test {test} and split.validation {validation}", len(texts)))
    train = [row for members in left.values() for group in members for row in group]
    return _shuffled(train, rng), _shuffled(held_out[1], rng), _shuffled(held_out[0], rng)


def _groups(texts: Sequence[str]) -> list[list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(texts):
        groups[text].append(row)
    return list(groups.values())


def _members(names: np.ndarray, rng: np.random.Generator) -> dict[int, list[int]]:
    """Stratum -> its positions in random order."""
    members: dict[int, list[int]] = defaultdict(list)
    for position in rng.permutation(len(names)).tolist():
        members[int(names[position])].append(position)
    return dict(sorted(members.items()))


def _draw(left: dict[int, list[list[int]]], size: int, setting: str, total: int) -> list[int]:
    """Take groups of `size` rows in all out of `left`, by strata; the last group of each stratum stays."""
    free = {name: sum(map(len, groups[:-1])) for name, groups in left.items()}
    if sum(free.values()) < size:
        texts = sum(map(len, left.values()))
        continuous = len(left) * 2 > total
        advice = "a number to predict? then set task: text-regression" if continuous else "give smaller sizes"
        found = f"{len(left)} classes, {texts} different texts"
        raise InputError(f"data.{setting} leave too few of {total} rows for training ({found}); {advice}")
    quotas = _quotas(free, size)
    drawn = [row for name, groups in left.items() for row in _take(groups, quotas[name])]
    for groups in left.values():  # what whole groups left open in one stratum, others fill
        drawn += _take(groups, size - len(drawn))
    return drawn


def _take(groups: list[list[int]], quota: int) -> list[int]:
    """Remove groups that fit into `quota` rows, never the last one; their rows."""
    taken: list[int] = []
    kept = []
    for group in groups[:-1]:
        fits = len(taken) + len(group) <= quota
        taken.extend(group) if fits else kept.append(group)
    groups[:-1] = kept
    return taken


def _quotas(available: dict[int, int], size: int, floor_each: int = 0) -> dict[int, int]:
    """`size` places in proportion to `available`, by largest remainder; at least `floor_each` if there are enough."""
    total = sum(available.values())
    if total == 0:
        return available
    if floor_each * len(available) > size:
        floor_each = 0
    exact = {name: count * size / total for name, count in available.items()}
    quotas = {name: max(floor(share), min(floor_each, available[name])) for name, share in exact.items()}
    while (missing := size - sum(quotas.values())) != 0:
        step = 1 if missing > 0 else -1
        able = [name for name in quotas if _may_change(quotas[name], step, floor_each, available[name])]
        best = sorted(able, key=lambda name: step * (quotas[name] - exact[name]))[: abs(missing)]
        quotas |= {name: quotas[name] + step for name in best}
    return quotas


def _may_change(quota: int, step: int, low: int, high: int) -> bool:
    return low <= quota + step <= high


def _shuffled(rows: list[int], rng: np.random.Generator) -> list[int]:
    return [rows[i] for i in rng.permutation(len(rows))]


def conflicts(texts: Sequence[str], labels: np.ndarray) -> tuple[int, int]:
    """(rows that repeat an earlier text, texts that carry more than one label)."""
    repeated = {text for text, count in Counter(texts).items() if count > 1}
    seen: dict[str, set[bytes]] = defaultdict(set)
    for text, label in zip(texts, labels, strict=True):
        if text in repeated:
            seen[text].add(np.asarray(label).tobytes())
    return len(texts) - len(set(texts)), sum(len(found) > 1 for found in seen.values())
