"""What a model loses without each of its parts: a page with heat maps, and the same as a table, JSON, CSV or Markdown.

Reads the `sensitivity.json` that `assay analyse sensitivity` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from assay.core.manifest import write_atomic
from reports import units
from reports.build import page_environment
from reports.collect import read_json
from reports.heat_map import heat_map

Row = dict[str, Any]
PARTS = {"layer": "Layers", "head": "Heads", "neurons": "Feed-forward neurons"}
COLUMNS = ("removed", "accuracy", "change", "loss", "change")


@dataclass(frozen=True)
class Section:
    """One kind of part: its heat map of the rise in loss (none for layers), and a line a part, least rise first.

    `columns` says in words what those of the map are."""

    title: str
    columns: str
    chart: Markup | None
    lines: tuple[tuple[str, ...], ...]


def build(path: Path) -> Path:
    """Write the page beside the JSON file, whole or not at all, and return its path."""
    page = path.with_suffix(".html")
    found = read_json(path)
    template = page_environment().get_template("sensitivity.html")
    write_atomic(page, template.render(found=found, sections=sections(found), columns=COLUMNS))
    return page


def rows(path: Path) -> list[Row]:
    """One object a part, in the order of the model, with the figures of the whole model first."""
    found = read_json(path)
    empty = dict.fromkeys(found["removed"][0]) if found["removed"] else {}
    return [{**empty, "part": "none", **found["whole"]}, *found["removed"]]


def sections(found: Row) -> list[Section]:
    """What there is of each kind."""
    return [_section(part, title, members) for part, title in PARTS.items() if (members := _of(found, part))]


def table(path: Path) -> Table:
    """For the terminal: least rise in loss first, kind by kind."""
    found = read_json(path)
    grid = Table(title=Text(f"{found['variant']} without each part"), caption=_caption(found), caption_justify="left")
    for index, name in enumerate(COLUMNS):
        grid.add_column(name, justify="right" if index else "left")
    for section in sections(found):
        for line in section.lines:
            grid.add_row(*map(Text, line))
        grid.add_section()
    return grid


def markdown(path: Path) -> str:
    """The same table for a README."""
    found = read_json(path)
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" + "|---:" * (len(COLUMNS) - 1) + "|"]
    lines += [f"| {' | '.join(line)} |" for section in sections(found) for line in section.lines]
    return "\n".join([*lines, "", _caption(found)]) + "\n"


def name_of(row: Row) -> str:
    """The part in words: layer 2, head 5."""
    layer = f"layer {row['layer']}"
    if row["part"] == "head":
        return f"{layer}, head {row['number']}"
    return f"{layer}, neurons {row['neurons']}" if row["part"] == "neurons" else layer


def _of(found: Row, part: str) -> list[Row]:
    return [row for row in found["removed"] if row["part"] == part]


def _section(part: str, title: str, members: Sequence[Row]) -> Section:
    ranked = sorted(members, key=lambda row: row["loss_change"])
    if part == "layer":
        return Section(title, "", None, tuple(map(_line, ranked)))
    rises = {(row["layer"], row["number"]): row["loss_change"] for row in members}
    unit = "head" if part == "head" else "group"
    chart = heat_map(rises, f"{title}: rise of the loss without each", "rise of the loss", unit=unit)
    columns = "heads" if part == "head" else "groups of neighbouring neurons"
    return Section(title, columns, chart, tuple(map(_line, ranked)))


def _line(row: Row) -> tuple[str, ...]:
    accuracy, change = row["accuracy"], row["accuracy_change"]
    moved = units.NOTHING if change is None else f"{change:+.3f}"
    return name_of(row), units.fraction(accuracy), moved, f"{row['loss']:.4f}", f"{row['loss_change']:+.4f}"


def _caption(found: Row) -> str:
    whole = found["whole"]
    accuracy = "" if whole["accuracy"] is None else f"accuracy {units.fraction(whole['accuracy'])}, "
    rows = f"{units.count(found['rows'])} {found['split']} rows"
    return f"One part at a time, nothing retrained. The whole model: {accuracy}loss {whole['loss']:.4f} on {rows}."
