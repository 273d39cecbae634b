"""How like the teacher's a variant's states are, layer by layer: the section of the similarity probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from reports.collect import Run
from reports.findings import Found, shared
from reports.heat_map import heat_map

MEASURES = ("cka", "rsa", "svcca", "procrustes")


@dataclass(frozen=True)
class Map:
    """CKA of each layer with each of the teacher's, on one kind of vectors; `rows` are those of its table, and `same`
    has every measure of a layer with the teacher's of its number; it is empty for the teacher itself."""

    title: str
    chart: Markup
    columns: tuple[int, ...]
    rows: tuple[tuple[int, tuple[float | None, ...]], ...]
    same: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Likeness:
    """One model: a map for each kind of vectors that could be compared, and the shape of its own by layer."""

    found: Found
    maps: tuple[Map, ...]
    shapes: tuple[Mapping[str, Any], ...]


def likeness(run: Run) -> list[Likeness]:
    """What the similarity probe found on each distinct model."""
    teacher = run.teacher.name if run.teacher else ""
    called = {"texts": "images", "tokens": "patches"} if run.has_images else {}
    return [_likeness(found, teacher in found.names, called) for found in shared(run, "similarity")]


def _likeness(found: Found, is_teacher: bool, called: Mapping[str, str]) -> Likeness:
    details = found.result.details
    compared = [each for each in details.get("comparisons") or () if not each.get("skipped")]
    maps = [_map(found.title, each, called.get(each["vectors"], each["vectors"]), is_teacher) for each in compared]
    return Likeness(found, tuple(maps), tuple(details.get("shapes") or ()))


def _map(model: str, data: Mapping[str, Any], vectors: str, is_teacher: bool) -> Map:
    layers, columns = data["layers"], data["teacher_layers"]
    cells = {
        (layer, column): value
        for layer, row in zip(layers, data["cka"], strict=True)
        for column, value in zip(columns, row, strict=True)
        if value is not None
    }
    title = f"Vectors of {vectors}"
    chart = heat_map(cells, f"CKA with the teacher, {model}, {vectors}", "CKA", span=(0, 1), unit="teacher layer")
    rows = tuple((layer, tuple(row)) for layer, row in zip(layers, data["cka"], strict=True))
    return Map(
        f"{title}, {data['n']:,}", chart, tuple(columns), rows, () if is_teacher else _same(data, layers, columns)
    )


def _same(data: Mapping[str, Any], layers: Sequence[int], columns: Sequence[int]) -> tuple[dict[str, Any], ...]:
    places = [(row, columns.index(layer)) for row, layer in enumerate(layers) if layer in columns]
    return tuple(
        {"layer": layers[row]} | {name: data[name][row][column] for name in MEASURES} for row, column in places
    )
