"""A variant's score beside the teacher's on the same test items (rows, words or edges), item by item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from assay.core.errors import NoRoom, NotGiven
from assay.core.metric import Metric
from probe.by_sentence import change_interval

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.probe import Probe, ProbeContext

Found = TypeVar("Found")


def with_teacher(
    probe: Probe, model: Predictor, ctx: ProbeContext, find: Callable[[Predictor], Found]
) -> tuple[Found, Found | None]:
    """What `find` tells of the model and of the teacher, None where the model is the teacher or the teacher shows no
    states. Of each model once for all variants of a run. NoRoom from either: the difference can be told once there is
    room."""

    def once(of: Predictor) -> Found:
        key = f"{type(probe).__name__} {probe.model_dump_json()} {ctx.seed} {of.artifact.key}"
        if key not in ctx.kept:
            ctx.kept[key] = find(of)
        return ctx.kept[key]

    own = once(model)
    if model.artifact.key == ctx.teacher.artifact.key:
        return own, None
    try:
        return own, once(ctx.teacher)
    except NoRoom:
        raise
    except NotGiven:
        return own, None


def paired_change(own: np.ndarray, theirs: np.ndarray, owners: np.ndarray) -> dict[str, Any]:
    """Mean of own - theirs with its 95 % bootstrap interval over `owners`, and `n` items that count in both.

    own, theirs: float [items], 1 right, 0 wrong, NaN where an item does not count; owners: [items], what is drawn
    again: the sentence of a word, or the item itself."""
    change = own - theirs
    both = np.isfinite(change)
    low, high = change_interval(change[both], owners[both])
    mean = float(change[both].mean()) if both.any() else None
    return {"change": mean, "low": low, "high": high, "n": int(both.sum())}


def change_metric(name: str, change: dict[str, Any]) -> Metric:
    """The change as a headline figure."""
    return Metric(name, change["change"], "fraction", None, change["n"], change["low"], change["high"])
