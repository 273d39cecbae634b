"""Which words the answers rest on: the section of the attribution probe, with a few texts shaded word by word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports import units
from reports.collect import Run
from reports.findings import Found, shared

SHADES = 4  # beside none
METHODS = {
    "integrated_gradients": "Integrated gradients",
    "gradient_x_input": "Gradient × input",
    "occlusion": "Occlusion",
}


@dataclass(frozen=True)
class Figures:
    """One method on one model: `alike` has a cell of words for each kind of rows, None on the teacher itself."""

    method: str
    alike: Mapping[str, str] | None
    overlap: str
    comprehensiveness: str
    sufficiency: str


@dataclass(frozen=True)
class Word:
    """`shade` is the class of its colour, "" where it says next to nothing; `told` its attribution in words."""

    text: str
    shade: str
    told: str


@dataclass(frozen=True)
class Line:
    """A text as one model reads it."""

    name: str
    answer: str
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Example:
    """One row: the teacher's line first where there is one. `more` words are not shown."""

    row: int
    method: str
    lines: tuple[Line, ...]
    more: int


@dataclass(frozen=True)
class Attribution:
    """One distinct model. `pairs` are two methods and how they agree on it."""

    found: Found
    figures: tuple[Figures, ...]
    pairs: tuple[tuple[str, str], ...]
    examples: tuple[Example, ...]
    notes: tuple[str, ...]
    completeness: Mapping[str, Any] | None


def attribution(run: Run) -> list[Attribution]:
    """What the attribution probe found on each distinct model."""
    return [_attribution(found) for found in shared(run, "attribution")]


def _attribution(found: Found) -> Attribution:
    details = found.result.details
    return Attribution(
        found,
        tuple(_figures(item, details) for item in details.get("faithfulness") or ()),
        tuple((_pair(item), _correlation(item)) for item in details.get("between_methods") or ()),
        tuple(_example(item, found.title) for item in details.get("examples") or ()),
        tuple(details.get("notes") or ()),
        details.get("completeness"),
    )


def _figures(faithful: Mapping[str, Any], details: Mapping[str, Any]) -> Figures:
    name = faithful["method"]
    alike = {item["rows"]: item for item in details.get("agreement") or () if item["method"] == name}
    return Figures(
        METHODS.get(name, units.title(name)),
        {kind: _correlation(item) for kind, item in alike.items()} or None,
        _against(alike["all"], "overlap", "chance") if alike else units.NOTHING,
        _against(faithful, "comprehensiveness", "comprehensiveness_random"),
        _against(faithful, "sufficiency", "sufficiency_random"),
    )


def _correlation(item: Mapping[str, Any]) -> str:
    """0.812 (0.75 to 0.87), 48 rows."""
    if item["spearman"] is None:
        return units.NOTHING
    bounds = f" ({item['low']:.2f} to {item['high']:.2f})" if item["low"] is not None else ""
    rows = f"{units.count(item['n'])} row{'s' if item['n'] != 1 else ''}"
    return f"{units.fraction(item['spearman'])}{bounds}, {rows}"


def _against(item: Mapping[str, Any], name: str, control: str) -> str:
    """0.412 against 0.120: the figure and its control."""
    if item[name] is None:
        return units.NOTHING
    return f"{units.fraction(item[name])} against {units.fraction(item[control])}"


def _pair(item: Mapping[str, Any]) -> str:
    return " and ".join(METHODS.get(name, units.title(name)).lower() for name in item["methods"])


def _example(item: Mapping[str, Any], name: str) -> Example:
    lines = [Line(name, item["answer"], _words(item["words"], item["values"]))]
    if "teacher_values" in item:
        lines.insert(0, Line("teacher", item["teacher_answer"], _words(item["words"], item["teacher_values"])))
    method = METHODS.get(item["method"], units.title(item["method"]))
    return Example(item["row"], method, tuple(lines), item["of"] - len(item["words"]))


def _words(words: Sequence[str], values: Sequence[float]) -> tuple[Word, ...]:
    """Shaded by the share of the strongest word of the line, since logits of two models have scales of their own."""
    most = max((abs(value) for value in values), default=0) or 1
    return tuple(Word(word, _shade(value / most), f"{value:+.3g}") for word, value in zip(words, values, strict=True))


def _shade(share: float) -> str:
    level = round(SHADES * abs(share))
    return f"{'for' if share > 0 else 'against'}-{level}" if level else ""
