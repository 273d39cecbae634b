"""Writes the report of a run: one HTML file that needs nothing else, no network and no script.

All text of the run (rows, class names, variant names) reaches the page escaped; the page's own policy forbids scripts
and requests besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from assay.core.manifest import write_atomic
from reports import examples, facts, findings, units
from reports.attribution import attribution
from reports.charts import Point, scatter
from reports.claims import TINY, best_trade, claims
from reports.collect import Run, Variant, collect
from reports.compare import notes, rows, summary
from reports.forgotten import forgotten, is_clear
from reports.head_roles import head_roles
from reports.likeness import likeness
from reports.rows import baselines, kept, metric_names, pareto, quality_name

REPORT = "report.html"
TEXT_LENGTH = 600


@dataclass(frozen=True)
class Tile:
    """A headline figure and what it means."""

    value: str
    words: str


@dataclass(frozen=True)
class Trade:
    """A trade-off chart with the points it shows."""

    title: str
    chart: Markup
    points: tuple[Point, ...]
    cost: str


def build(run_dir: Path) -> Path:
    """Write `report.html` into the run folder, whole or not at all, and return its path."""
    run = collect(run_dir)
    path = run_dir / REPORT
    write_atomic(path, render(run))
    return path


def render(run: Run) -> str:
    """The page as HTML."""
    template = page_environment().get_template("report.html")
    return template.render(run=run, **_everything(run))


def tiles(run: Run) -> list[Tile]:
    """What the best trade keeps and gains, each gain against both baselines; nothing where there is no such variant."""
    best = best_trade(run)
    if best is None:
        return []
    share = Tile(units.percent(kept(run, best)), f"of the teacher’s {units.word(quality_name(run) or '')} kept")
    gains = (_gain(run, best, "size_bytes", "smaller than"), _gain(run, best, "latency_ms_p50", "faster at p50 than"))
    return [share, *(tile for tile in gains if tile is not None)]


def _gain(run: Run, best: Variant, key: str, words: str) -> Tile | None:
    """The smaller of the gains stands out; None where there is no gain against one of the baselines."""
    ratios = [(ratio, base) for base in baselines(run) if (ratio := base.gain(best, key)) is not None]
    if not ratios or len(ratios) < len(baselines(run)) or min(ratio for ratio, _ in ratios) <= 1:
        return None
    (least, base), *rest = sorted(ratios, key=lambda pair: pair[0])
    others = "".join(f", {units.times(ratio)} than in {other.short}" for ratio, other in rest)
    return Tile(units.times(least), f"{words} {base.words}{others}")


def trades(run: Run) -> list[Trade]:
    """Quality against latency and against size, for what is measured so far."""
    axes = (
        ("latency_ms_p50", "latency p50, ms", 1.0, "Quality against latency"),
        ("size_bytes", "size, MB", 1e-6, "Quality against size"),
    )
    return [trade for cost, name, unit, title in axes if (trade := _trade(run, cost, name, unit, title)) is not None]


def _trade(run: Run, cost: str, name: str, unit: float, title: str) -> Trade | None:
    quality = quality_name(run)
    alike = [row for row in rows(run) if row["paired"] is not False]  # others were asked for other tokens
    known = [row for row in alike if quality and row.get(cost) and row.get(quality) is not None]
    if quality is None or not known:
        return None
    front = {row["variant"] for row in pareto(known, cost, quality)}
    points = tuple(_point(run, row, cost, unit, quality, row["variant"] in front) for row in known)
    chart = scatter(points, name, units.word(quality), title)
    return Trade(title, chart, tuple(sorted(points, key=lambda point: point.x)), name)


def _point(run: Run, row: Mapping[str, Any], cost: str, unit: float, quality: str, best: bool) -> Point:
    bounds = (row[f"{quality}_low"], row[f"{quality}_high"])
    kind = row["format"] if row["variant"] in run.baselines else "variant"
    return Point(row["variant"], row[cost] * unit, row[quality], *bounds, kind=kind, best=best)


def _everything(run: Run) -> dict[str, Any]:
    linear = findings.linear_tasks(run)
    other = [name for name in findings.probe_names(run) if name not in findings.OWN_SECTION]
    return {
        "now": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "claims": [claim for claim in claims(run) if claim != TINY],
        "tiny": TINY if run.tiny else None,
        "tiles": [] if run.tiny else tiles(run),
        "lines": summary(run),
        "notes": notes(run),
        "bases": baselines(run),
        "best": best_trade(run),
        "quality": quality_name(run),
        "metric_names": metric_names(run),
        "trades": trades(run),
        "forgotten": forgotten(run),
        "head_maps": facts.head_maps(run),
        "linear": linear,
        "attention": findings.attention(run),
        "head_roles": head_roles(run),
        "likeness": likeness(run),
        "attribution": attribution(run),
        "typos": findings.results(run, "typos"),
        "fidelity": findings.results(run, "fidelity"),
        "other": {name: findings.shared(run, name) for name in other},
        "asked": findings.probe_names(run),
        "flips": [found for variant in _compared(run) if (found := examples.flips(run, variant)) is not None],
        "missing": findings.missing(run),
        "measured": measured(run),
    }


def _compared(run: Run) -> Sequence[Variant]:
    return [variant for variant in run.variants if variant.role == "variant" and variant.state == "done"]


def measured(run: Run) -> dict[str, dict[str, str]]:
    """How the figures came about: machine, settings, data and versions, as far as they are recorded."""
    notes = run.data.get("notes") or {}
    machine = {**run.machine, **run.measured_on}
    layouts = {facts.plain(variant.layout): None for variant in run.variants if variant.layout}
    groups: dict[str, Mapping[str, Any]] = {
        "Run": {
            "config": run.config,
            "model": run.job.get("model"),
            "task": run.task,
            "labels": ", ".join(run.labels) or None,
            "seed": run.seed,
            "started": run.started,
            "finished": run.finished or "not finished",
        },
        "Machine": {name: value for name, value in machine.items() if name != "flags"} | _flags(machine.get("flags")),
        "Speed and memory": run.measured_with or {"state": "not measured yet"},
        "Evaluation": {"layout": "; ".join(layouts) or "not measured yet"},
        "Data": {"fingerprint": run.data.get("fingerprint"), **notes},
        "Versions": run.versions,
    }
    return {group: _told(items, named=group == "Versions") for group, items in groups.items()}


def _told(items: Mapping[str, Any], named: bool) -> dict[str, str]:
    """`named` leaves the names as they are: they are packages."""
    known = {name: facts.plain(value) for name, value in items.items() if value is not None}
    return known if named else {units.title(name): value for name, value in known.items()}


def _flags(flags: Mapping[str, Any] | Sequence[str] | None) -> dict[str, str]:
    if not flags:
        return {}
    if not isinstance(flags, Mapping):
        return {"flags": ", ".join(flags)}
    has, lacks = ([name for name, value in flags.items() if bool(value) is wanted] for wanted in (True, False))
    return {
        "CPU has": ", ".join(has) or "none of those looked for",
        "CPU lacks": ", ".join(lacks) or "none of those looked for",
    }


@cache
def page_environment() -> jinja2.Environment:
    """Templates with the filters that every page uses; all text is escaped. Made once, with what it has compiled."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "title_of": units.title,
        "word": units.word,
        "metric": units.metric,
        "change_parts": units.change_parts,
        "figure": units.figure,
        "fraction": units.fraction,
        "percent": units.percent,
        "count": units.count,
        "size": units.size,
        "ms": units.milliseconds,
        "seconds": units.seconds,
        "significant": lambda value: units.NOTHING if value is None else units.significant(value),
        "cut": lambda text: (text[:TEXT_LENGTH], len(text)),
    }
    environment.globals |= {
        "step_settings": facts.settings,
        "step_facts": facts.facts,
        "curve_chart": facts.curve_chart,
        "curve": facts.curve,
        "changed_words": findings.changed_words,
        "is_clear": is_clear,
        "silver_parsers": findings.silver_parsers,
        "TEXT_LENGTH": TEXT_LENGTH,
    }
    return environment
