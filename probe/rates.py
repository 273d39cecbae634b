"""Shares of rows with their intervals."""

from __future__ import annotations

from assay.core.metric import Metric
from assay.core.stats import wilson_interval


def rate(name: str, hits: int, n: int, higher_is_better: bool | None) -> Metric:
    """`hits` of `n` rows as a fraction with its 95 % Wilson interval; no value where there are no rows."""
    if n == 0:
        return Metric(name, None, "fraction", higher_is_better, 0)
    return Metric(name, hits / n, "fraction", higher_is_better, n, *wilson_interval(hits, n))
