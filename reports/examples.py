"""Test rows on which a variant answers otherwise than the teacher: the strongest ones, with both answers.

Read from the predictions, so no model is loaded. For regression there is no flip; the largest moves are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from reports import units
from reports.collect import Run, Variant
from reports.thumbnail import thumbnail

MOST = 4


@dataclass(frozen=True)
class Flip:
    """One row. `teacher` and `variant` are answers in words; `verdict` says which of them is right.

    Of a model of images `text` is the end of the path, and `image` the picture as a data address."""

    row: int
    text: str
    truth: str
    teacher: str
    variant: str
    verdict: str
    image: str | None = None


@dataclass(frozen=True)
class Flips:
    """The strongest of `total` changed answers among `of` rows of a variant; `total` is None for regression."""

    name: str
    total: int | None
    of: int
    rows: tuple[Flip, ...]


def flips(run: Run, variant: Variant, most: int = MOST) -> Flips | None:
    """Rows where `variant` left the teacher's answer, strongest first; None where either has no predictions, as a
    language model's answers are not kept."""
    if run.teacher is None or run.test is None or variant.predictions is None or run.teacher.predictions is None:
        return None
    if "logit_0" not in variant.predictions:
        return None
    pair = run.teacher.predictions.merge(variant.predictions, on="row", suffixes=("", "_variant"))
    pair = pair.merge(run.test[["row", "text"]], on="row", how="left")
    teacher, ours = logits(pair, ""), logits(pair, "_variant")
    changed, strength = _changes(run.task, teacher, ours)
    order = sorted(np.flatnonzero(changed), key=lambda at: (-strength[at], at))[:most]
    told = tuple(_flip(run, pair.iloc[at], teacher[at], ours[at]) for at in order)
    total = None if run.task == "text-regression" else int(changed.sum())
    return Flips(variant.name, total, len(pair), told)


def logits(frame: pd.DataFrame, suffix: str = "") -> np.ndarray:
    """float64 [rows, classes] from the columns logit_0, logit_1, ... in the order of their numbers."""
    numbers = sorted(
        int(name.removeprefix("logit_").removesuffix(suffix))
        for name in frame.columns
        if name.startswith("logit_")
        and name.endswith(suffix)
        and name.removeprefix("logit_").removesuffix(suffix).isdigit()
    )
    return frame[[f"logit_{number}{suffix}" for number in numbers]].to_numpy(dtype=np.float64)


def _changes(task: str, teacher: np.ndarray, ours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row's answer changed, and how much probability (or, for regression, value) moved."""
    if task == "text-regression":
        moved = np.abs(ours - teacher).max(axis=1)
        return moved > 0, moved
    moved = np.abs(probabilities(task, ours) - probabilities(task, teacher)).max(axis=1)
    if task == "multi-label-classification":
        return ((ours > 0) != (teacher > 0)).any(axis=1), moved
    return ours.argmax(axis=1) != teacher.argmax(axis=1), moved


def probabilities(task: str, values: np.ndarray) -> np.ndarray:
    """Softmax over classes, or a sigmoid a label for multi-label tasks."""
    if task == "multi-label-classification":
        return np.asarray(1 / (1 + np.exp(-values)))
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _flip(run: Run, row: pd.Series, teacher: np.ndarray, ours: np.ndarray) -> Flip:
    truth, before, after = _truth(run, row["label"]), _answer(run, teacher), _answer(run, ours)
    verdict = _verdict(truth, _names(run, teacher), _names(run, ours)) if run.task != "text-regression" else ""
    text, image = str(row["text"]), None
    if run.has_images:
        text, image = "/".join(Path(text).parts[-2:]), thumbnail(text)
    return Flip(int(row["row"]), text, truth, before, after, verdict, image)


def _verdict(truth: str, before: str, after: str) -> str:
    if truth == "hidden":
        return "label hidden"
    return "now wrong" if before == truth else "now right" if after == truth else "both wrong"


def _names(run: Run, values: np.ndarray) -> str:
    if run.task == "multi-label-classification":
        return ", ".join(_label(run, index) for index in np.flatnonzero(values > 0).tolist()) or "none"
    return _label(run, int(values.argmax()))


def _answer(run: Run, values: np.ndarray) -> str:
    if run.task == "text-regression":
        return units.significant(float(values[0]))
    shares = probabilities(run.task, values)
    if run.task == "multi-label-classification":
        return ", ".join(f"{_label(run, i)} {shares[i]:.2f}" for i in np.flatnonzero(values > 0).tolist()) or "none"
    return f"{_names(run, values)} {shares.max():.2f}"


def _truth(run: Run, label: object) -> str:
    if run.task == "text-regression":
        return units.significant(float(label))  # type: ignore[arg-type]
    if run.task == "multi-label-classification":
        return ", ".join(_label(run, index) for index in np.flatnonzero(np.asarray(label)).tolist()) or "none"
    return _label(run, int(label)) if int(label) >= 0 else "hidden"  # type: ignore[call-overload]


def _label(run: Run, index: int) -> str:
    return run.labels[index] if index < len(run.labels) else f"class {index}"
