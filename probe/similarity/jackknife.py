"""Intervals for figures that are made from sums: leave each group of rows out once (the delete-a-group jackknife)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from probe.similarity.moments import Moments

GROUPS = 10
QUANTILE = 2.262  # 97.5 % of Student's t with GROUPS - 1 degrees of freedom


def jackknife_spread(groups: Sequence[Moments], whole: Moments, statistic: Callable[[Moments], float]) -> float | None:
    """Half the width of the 95 % interval of a statistic of `whole`, the sum of GROUPS `groups` of about equal size.

    Rows belong together, as the tokens of a text do, when they are in one group. None where a group is missing or the
    statistic cannot be had without one of them."""
    if len(groups) < GROUPS or min(group.n for group in groups) == 0:
        return None
    left_out = [statistic(whole.without(group)) for group in groups]
    centre = sum(left_out) / GROUPS
    spread = math.sqrt((GROUPS - 1) / GROUPS * sum((value - centre) ** 2 for value in left_out))
    return None if math.isnan(spread) else QUANTILE * spread
