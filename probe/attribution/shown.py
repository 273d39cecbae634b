"""A few texts with what each word speaks for, a variant beside its teacher: plain data for the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.stats import predicted_labels

if TYPE_CHECKING:
    from assay.core.data.prepare import JobData, Split
    from probe.attribution.explained import Explained

MOST, MOST_FLIPPED, MOST_WORDS = 3, 2, 40


def choose(rows: Sequence[int], alike: np.ndarray, same: np.ndarray) -> list[int]:
    """Which of `rows` to show: flipped ones first, but not all, and of each kind those that agree least.

    `alike` [rows] are correlations with the teacher, `same` bool [rows] tells whether the answers are."""
    order = np.argsort(np.where(np.isfinite(alike), alike, np.inf), kind="stable").tolist()
    flipped = [at for at in order if not same[at]][:MOST_FLIPPED]
    kept = [at for at in order if same[at]]
    return [rows[at] for at in [*flipped, *kept][:MOST]]


def example(
    row: int, split: Split, own: Explained, theirs: Explained | None, method: str, data: JobData
) -> dict[str, Any]:
    """One text; `theirs` is the teacher's, or None where there is no other model to compare with."""
    words = own.readings[row].words
    told: dict[str, Any] = {
        "row": split.rows[row],
        "method": method,
        "words": words[:MOST_WORDS],
        "of": len(words),
        "values": _rounded(own.words[method][row]),
        "answer": _answer(own, row, data),
    }
    if theirs is None:
        return told
    return told | {"teacher_values": _rounded(theirs.words[method][row]), "teacher_answer": _answer(theirs, row, data)}


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in values[:MOST_WORDS]]


def _answer(found: Explained, row: int, data: JobData) -> str:
    """What the model answered, and where another label was explained, that too."""
    logits = found.logits[row]
    if data.task == "text-regression":
        return f"{logits[0]:.3g}"
    labels = np.atleast_1d(predicted_labels(logits, data.task))
    if data.task == "multi-label-classification":
        labels = np.flatnonzero(labels)
    answer = ", ".join(data.labels[label] for label in labels) or "none"
    target = data.labels[found.targets[row]]
    return answer if answer == target else f"{answer} (explained: {target})"
