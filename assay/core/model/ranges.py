"""Ascending numbers as short text and back: how manifests and messages write heads, neurons and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def to_ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5] -> "0-2,5". `numbers` ascend and are not empty."""
    gaps = [(left, right) for left, right in pairwise(numbers) if right > left + 1]
    starts = [numbers[0], *(right for _, right in gaps)]
    ends = [*(left for left, _ in gaps), numbers[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def from_ranges(text: str) -> list[int]:
    """The numbers that `to_ranges` wrote; ValueError where it is something else."""
    bounds = [[int(bound) for bound in part.split("-")] for part in text.split(",")]
    return [number for first, *last in bounds for number in range(first, (last or [first])[0] + 1)]
