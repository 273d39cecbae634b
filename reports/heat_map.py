"""A map of heads as inline SVG: original layers as rows, original heads as columns.

A stronger colour is more, in light and dark alike. Figures stand in the cells where they fit and in each cell's
tooltip, and removed heads are crossed out, so nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from reports.svg import element, figure, label, number, text_width

At = tuple[int, int]  # layer, head
LEFT, TOP, BOTTOM = 62, 26, 24
# Below this a cell holds no legible figure.
LEGIBLE = 32


@dataclass(frozen=True)
class Grid:
    """Where cells are, in pixels: `layers` from top to bottom, `size` of a cell with its gap."""

    layers: tuple[int, ...]
    heads: int
    size: int

    def corner(self, at: At) -> tuple[int, int]:
        """Left and top of a cell."""
        return LEFT + at[1] * self.size, TOP + self.layers.index(at[0]) * self.size


def heat_map(
    values: Mapping[At, float],
    title: str,
    what: str,
    removed: Collection[At] = (),
    span: tuple[float, float] | None = None,
    unit: str = "head",
) -> Markup:
    """`values` of heads by (layer, head), named `what`; those in `removed` are crossed out and may have no value.
    `unit` names what the columns are where they are not heads.

    Maps that are to be compared share their `span`, the values of the faintest and the strongest colour."""
    grid = _grid({*values, *removed})
    low, high = span or (min(values.values()), max(values.values()))
    cells = [
        _cell(grid, at, value, (value - low) / ((high - low) or 1), what, unit, at in removed)
        for at, value in values.items()
    ]
    gaps = [_gap(grid, at) for at in removed if at not in values]
    crosses = [_cross(grid, at) for at in removed]
    crossed = f"; {len(removed)} {unit}s are crossed out" if removed else ""
    text = f"{what[:1].upper()}{what[1:]} of {len(values)} {unit}s from {number(low)} to {number(high)}{crossed}."
    legend = f"{number(low)} faint, {number(high)} strong"
    width = LEFT + max(grid.heads * grid.size, round(text_width(legend)))
    height = TOP + len(grid.layers) * grid.size + BOTTOM
    scale = label(LEFT, height - 6, legend, "tick")
    return figure(title, text, width, height, *_names(grid), *gaps, *cells, *crosses, scale)


def _grid(cells: Collection[At]) -> Grid:
    heads = max((head for _, head in cells), default=0) + 1
    return Grid(tuple(sorted({layer for layer, _ in cells})), heads, min(40, max(18, 640 // heads)))


def _names(grid: Grid) -> list[Markup]:
    middle = grid.size / 2
    rows = [label(LEFT - 10, grid.corner((n, 0))[1] + middle + 3, f"layer {n}", "tick", "end") for n in grid.layers]
    columns = [label(LEFT + h * grid.size + middle - 1, TOP - 9, str(h), "tick", "middle") for h in range(grid.heads)]
    return rows + columns


def _cell(grid: Grid, at: At, value: float, share: float, what: str, unit: str, removed: bool) -> Markup:
    """`share` is where the value lies between the lowest, 0, and the highest, 1, of the colours."""
    (left, top), inner, shade = grid.corner(at), grid.size - 2, 0.06 + 0.94 * min(max(share, 0), 1)
    told = f"layer {at[0]}, {unit} {at[1]}: {what} {number(value)}{', removed' if removed else ''}"
    tip = element("title", told)
    cell = element("rect", tip, x=left, y=top, width=inner, height=inner, class_="cell", fill_opacity=shade)
    if removed or grid.size < LEGIBLE:
        return cell
    strength = "strong" if shade > 0.75 else "middle" if shade > 0.45 else "weak"
    text = f"{value:.2f}".removeprefix("0") if abs(value) < 10 else f"{value:.0f}"
    return cell + element("text", text, x=left + inner // 2, y=top + inner // 2 + 4, class_=f"cell-value {strength}")


def _gap(grid: Grid, at: At) -> Markup:
    (left, top), inner = grid.corner(at), grid.size - 2
    return element("rect", x=left, y=top, width=inner, height=inner, class_="gap")


def _cross(grid: Grid, at: At) -> Markup:
    (left, top), arm = grid.corner(at), grid.size - 10
    path = f"M{left + 4} {top + 4}l{arm} {arm}m0 {-arm}l{-arm} {arm}"
    return element("path", d=path, class_="cross-ground") + element("path", d=path, class_="cross")
