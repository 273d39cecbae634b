"""The comparison of a run's variants: as rows, JSON, CSV, a terminal table, Markdown, and in words."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from reports import units
from reports.claims import claims
from reports.collect import Run, Variant
from reports.rows import OTHER_TOKENS, Row, baselines, grew, kept, pareto, quality_name, rows

__all__ = ["claims", "markdown", "notes", "pareto", "rows", "summary", "table", "to_csv", "to_json"]


def to_json(items: list[Row]) -> str:
    """A JSON list, one object a variant; missing figures are null."""
    return json.dumps(items, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_csv(items: list[Row]) -> str:
    """CSV with a header line; missing figures are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(items[0]) if items else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(items)
    return text.getvalue()


@dataclass(frozen=True)
class Line:
    """A variant as it is read in a table. `smaller` and `faster` hold one ratio per fp32 baseline, in their order."""

    name: str
    format: str
    size: str
    smaller: tuple[str, ...]
    latency: str
    faster: tuple[str, ...]
    quality: str
    kept: str
    grew: bool
    state: str
    baseline: bool


def summary(run: Run) -> list[Line]:
    """The key table, one line a variant in the order of the run."""
    return [_line(run, variant) for variant in run.variants]


def notes(run: Run) -> list[str]:
    """What must be known of single lines of the key table."""
    unlike = [f"{variant.name}: {OTHER_TOKENS}." for variant in run.variants if variant.paired is False]
    return unlike + [f"{variant.name}: no figures, {variant.skipped}." for variant in run.variants if variant.skipped]


def table(run: Run) -> Table:
    """The key table for the terminal."""
    grid = Table(title=Text(run.name), caption=_caption(run), caption_justify="left")
    grid.add_column("variant", overflow="fold")
    for name in _columns(run)[1:]:
        grid.add_column(name, justify="right")
    for line in summary(run):
        grid.add_row(*(Text(cell) for cell in _cells(line)))
    return grid


def markdown(run: Run) -> str:
    """The key table for a README."""
    names = _columns(run)
    lines = ["| " + " | ".join(names) + " |", "|---" + "|---:" * (len(names) - 1) + "|"]
    lines += ["| " + " | ".join(_plain(cell) for cell in _cells(line)) + " |" for line in summary(run)]
    return "\n".join([*lines, "", _plain(_caption(run))]) + "\n"


def _line(run: Run, variant: Variant) -> Line:
    known = baselines(run)
    name = quality_name(run)
    return Line(
        name=variant.name,
        format=variant.format,
        size=units.size(variant.measurement.get("size_bytes")),
        smaller=tuple(units.times(base.gain(variant, "size_bytes")) for base in known),
        latency=units.milliseconds(variant.measurement.get("latency_ms_p50")),
        faster=tuple(units.times(base.gain(variant, "latency_ms_p50")) for base in known),
        quality=units.metric(variant.metrics.get(name)) if name else units.NOTHING,
        kept="other tokens" if variant.paired is False else units.percent(kept(run, variant)),
        grew=grew(run, variant),
        state=variant.state,
        baseline=variant.name in {base.variant.name for base in known},
    )


def _columns(run: Run) -> list[str]:
    return ["variant", "size", "smaller", "p50", "faster", quality_name(run) or "quality", "kept"]


def _cells(line: Line) -> list[str]:
    name = line.name if line.state == "done" else f"{line.name} ({line.state})"
    smaller = " · ".join(line.smaller) + (" grew" if line.grew else "")
    return [name, line.size, smaller, line.latency, " · ".join(line.faster), line.quality, line.kept]


def _caption(run: Run) -> str:
    known = baselines(run)
    if not known:
        return " ".join(["The run has no fp32 baseline yet.", *notes(run)])
    against = " · ".join(base.words for base in known)
    about = (
        f"Ratios against {against}. Intervals are 95 %. Kept: share of the teacher's {quality_name(run) or 'quality'}."
    )
    return " ".join([about, *notes(run)])


def _plain(cell: str) -> str:
    """A cell that neither ends the column nor starts markup."""
    return cell.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
