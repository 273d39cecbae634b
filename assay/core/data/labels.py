"""From label cells to numbers, by name: class indices, 0/1 matrices or regression targets.

Class names that are all numbers come in numeric order (1, 2, 10), other names in text order, unless the settings give
the order. -1 marks a hidden label unless the settings name a class for it; only test rows may be hidden.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from assay.core.artifact import is_language
from assay.core.data.read import Rows, name_of
from assay.core.data.settings import DataSettings
from assay.core.errors import InputError

HIDDEN = -1
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
WHOLE = re.compile(r"\d+")

Given = list[str] | dict[str, str] | None


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Numbers in numeric order when all are numbers, else text order."""
    names = sorted(set(names))
    return tuple(sorted(names, key=float) if all(NUMBER.fullmatch(name) for name in names) else names)


def without_labels(settings: DataSettings, task: str) -> DataSettings:
    """For a task whose answers are the texts' own tokens; InputError where the settings name labels all the same."""
    if given := {"label", "labels"} & settings.model_fields_set:
        raise InputError(f"data.{min(given)}: a {task} job has no labels, its answers are the texts' tokens; remove it")
    return settings.model_copy(update={"label": []})


def class_indices(files: list[Rows], given: Given) -> tuple[tuple[str, ...], dict[str, int]]:
    """Class names, and the index of each value that may stand in the files."""
    if isinstance(given, dict):
        names = tuple(dict.fromkeys(given.values()))
        return names, {value.strip(): names.index(name) for value, name in given.items()}
    if given:
        positions = {} if any(WHOLE.fullmatch(name) for name in given) else {str(i): i for i in range(len(given))}
        return tuple(given), positions | {name: i for i, name in enumerate(given)}
    hidden = str(HIDDEN)
    names = sort_names(name for rows in files for (cell,) in rows.cells if (name := name_of(cell)) != hidden)
    return names, {name: i for i, name in enumerate(names)}


def encode(
    files: list[Rows], settings: DataSettings, task: str, hidden_in: Rows | None
) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Class names (none for regression) and one label array a file, shaped as in `Split`; zeros for a language model.

    `hidden_in` is the file in which -1 may stand for a label that is not known."""
    if is_language(task):
        return (), [np.zeros(len(rows), np.int64) for rows in files]
    if (task == "multi-label-classification") != isinstance(settings.label, list):
        raise InputError(
            f"data.label: {settings.label!r} does not fit {task}; only multi-label has a list of 0/1 columns"
        )
    if task == "text-regression":
        return (), [_targets(rows, settings.label_columns[0]) for rows in files]
    if task == "multi-label-classification":
        arrays = [_matrix(rows, settings.label_columns, rows is hidden_in) for rows in files]
        return _column_names(settings.label_columns, settings.labels), arrays
    names, index = class_indices(files, settings.labels)
    arrays = [_classes(rows, index, names, rows is hidden_in) for rows in files]
    _need_two_classes(files[0], arrays[0], names)
    return names, arrays


def _classes(rows: Rows, index: dict[str, int], names: tuple[str, ...], may_hide: bool) -> np.ndarray:
    found = {**index, str(HIDDEN): HIDDEN} if may_hide and str(HIDDEN) not in index else index
    labels = np.empty(len(rows), np.int64)
    for i, (cell,) in enumerate(rows.cells):
        label = found.get(name_of(cell))
        if label is None:
            raise InputError(f"{rows.name}: row {rows.numbers[i]}: {_why_not(name_of(cell), index, names)}")
        labels[i] = label
    return labels


def _why_not(name: str, index: dict[str, int], names: tuple[str, ...]) -> str:
    if name == str(HIDDEN):
        return "label -1 means hidden, for rows of data.test_source only; if -1 is a class, name it in data.labels"
    shown = ", ".join(map(repr, list(index)[:20])) + ", ..." * (len(index) > 20)
    return f"label {name!r} is none of the {len(names)} classes of data.labels; allowed: {shown}"


def _need_two_classes(rows: Rows, labels: np.ndarray, names: tuple[str, ...]) -> None:
    seen = np.unique(labels)
    if len(seen) < 2:
        only = names[seen[0]]
        raise InputError(f"{rows.name}: all {len(rows)} rows are of class {only!r}; a classifier needs two classes")


def _targets(rows: Rows, column: str) -> np.ndarray:
    targets = np.empty(len(rows), np.float64)
    for i, (cell,) in enumerate(rows.cells):
        try:
            targets[i] = float(cell)
        except (TypeError, ValueError):
            targets[i] = math.nan
        if not math.isfinite(targets[i]):
            place = f"{rows.name}: row {rows.numbers[i]}: column {column!r}"
            raise InputError(f"{place} holds {cell!r}, not a finite number")
    return targets


def _matrix(rows: Rows, columns: list[str], may_hide: bool) -> np.ndarray:
    values = {"0": 0, "1": 1, "false": 0, "true": 1}
    labels = np.empty((len(rows), len(columns)), np.int64)
    for i, cells in enumerate(rows.cells):
        names = [name_of(cell) for cell in cells]
        if may_hide and set(names) == {str(HIDDEN)}:
            labels[i] = HIDDEN
            continue
        for j, name in enumerate(names):
            if name not in values:
                place = f"{rows.name}: row {rows.numbers[i]}: column {columns[j]!r}"
                raise InputError(f"{place} holds {cells[j]!r}; allowed: 0 or 1 (all -1 in data.test_source: hidden)")
            labels[i, j] = values[name]
    return labels


def _column_names(columns: list[str], given: Given) -> tuple[str, ...]:
    if isinstance(given, list) and len(given) != len(columns):
        raise InputError(f"data.labels: {len(given)} names for the {len(columns)} columns of data.label")
    if isinstance(given, dict):
        unknown: list[Any] = [column for column in given if column not in columns]
        if unknown:
            raise InputError(f"data.labels: {unknown[0]!r} is no column of data.label; allowed: {', '.join(columns)}")
        return tuple(given.get(column, column) for column in columns)
    return tuple(given or columns)
