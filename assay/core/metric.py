"""A figure with its unit, direction and interval: the one shape in which results travel to the report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One figure. `low` and `high` are the bounds of a 95 % interval where one exists; `n` counts the examples."""

    name: str
    value: float | None
    unit: str
    higher_is_better: bool | None
    n: int
    low: float | None = None
    high: float | None = None
