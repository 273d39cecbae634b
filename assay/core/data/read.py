"""Rows of text with label cells as the file has them, filtered; nothing is mapped or split yet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.core.data.settings import DataSettings
from assay.core.data.tables import open_table
from assay.core.errors import InputError

SHOWN = 12  # values of a column that a message lists
SHOWN_CELL = 60  # characters of a cell that a message shows


@dataclass
class Rows:
    """`cells` holds one tuple of label cells a row, `numbers` the row numbers in the file (first data row = 1).

    `seen` counts all rows of the file, `skipped` those left out for an empty label or a missing text. Of a folder of
    images `passed_over` counts the other files by their endings."""

    name: str
    texts: list[str] = field(default_factory=list)
    cells: list[tuple[Any, ...]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    seen: int = 0
    skipped: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.texts)


def name_of(cell: Any) -> str:
    """A cell as a class name: 1, 1.0 (numbers) and "1" are "1", true is "true"; spaces around text do not count.

    Words such as `None` and `NA` are names; only None, NaN and nothing at all give the empty name."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def read_rows(address: str, settings: DataSettings) -> Rows:
    """All rows of `address` that `where` keeps; InputError names the file and the row of what cannot be used."""
    labels, where = settings.label_columns, Where(settings.where)
    table = open_table(address, settings.delimiter)
    table.require([settings.text, *labels, *settings.where])
    rows = Rows(address)
    for cells in table.read([settings.text, *labels, *settings.where]):
        rows.seen += 1
        if where.keeps(cells[1 + len(labels) :]):
            _add(rows, cells[0], cells[1 : 1 + len(labels)], settings)
    if not rows.seen:
        raise InputError(f"{address}: the file has columns but no rows")
    if not rows.texts and not rows.skipped:
        raise InputError(f"{address}: data.where keeps none of {rows.seen} rows; {where.found()}")
    if not rows.texts:
        raise InputError(f"{address}: all {rows.skipped} rows have an empty label or a missing text")
    return rows


def _add(rows: Rows, text: Any, cells: tuple[Any, ...], settings: DataSettings) -> None:
    empty = _empty_column(text, cells, settings)
    if empty and settings.empty == "skip":
        rows.skipped += 1
        return
    if empty:
        advice = "fill the cell, or set data.empty to 'skip' to leave such rows out"
        raise InputError(f"{rows.name}: row {rows.seen}: column {empty!r} is empty; {advice}")
    if not isinstance(text, str):
        shown = repr(text)[:SHOWN_CELL]
        raise InputError(f"{rows.name}: row {rows.seen}: column {settings.text!r} holds {shown}, which is not text")
    for name, cell in zip(settings.label_columns, cells, strict=True):
        if isinstance(cell, list | dict):
            advice = "a label is one value; for several at once, multi-label wants a 0/1 column a class"
            raise InputError(f"{rows.name}: row {rows.seen}: column {name!r} holds {str(cell)[:SHOWN_CELL]}; {advice}")
    rows.texts.append(text)
    rows.cells.append(cells)
    rows.numbers.append(rows.seen)


def _empty_column(text: Any, cells: tuple[Any, ...], settings: DataSettings) -> str | None:
    if text is None:
        return settings.text
    return next((name for name, cell in zip(settings.label_columns, cells, strict=True) if not name_of(cell)), None)


class Where:
    """The filter of `data.where`; remembers some values of each column for the message when nothing is kept."""

    def __init__(self, where: dict[str, Any]) -> None:
        lists = (value if isinstance(value, list) else [value] for value in where.values())
        self.allowed = [{name_of(value) for value in values} for values in lists]
        self.values: dict[str, dict[str, None]] = {column: {} for column in where}

    def keeps(self, cells: Sequence[Any]) -> bool:
        """True when every column holds an allowed value."""
        names = [name_of(cell) for cell in cells]
        for name, values in zip(names, self.values.values(), strict=True):
            if len(values) <= SHOWN:
                values[name] = None
        return all(name in allowed for name, allowed in zip(names, self.allowed, strict=True))

    def found(self) -> str:
        """`column 'source' holds 'imdb', 'rotten_tomatoes'` for each filtered column."""
        return "; ".join(
            f"column {column!r} holds {', '.join(map(repr, list(values)[:SHOWN]))}{', ...' * (len(values) > SHOWN)}"
            for column, values in self.values.items()
        )
