"""Small parts of inline SVG: elements, scales with round ticks, and labels that keep clear of each other.

Colours come from the page's style sheet by class, so one drawing serves light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

Box = tuple[float, float, float, float]  # left, top, right, bottom


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """An SVG element. Children that are not markup are escaped; `class_` and `stroke_width` become SVG names."""
    given = "".join(f' {_attribute(name)}="{escape(_short(value))}"' for name, value in attributes.items())
    inside = Markup("").join(children)
    return Markup(f"<{tag}{given}>{inside}</{tag}>" if inside else f"<{tag}{given}/>")


def figure(title: str, text: str, width: float, height: float, *children: Any) -> Markup:
    """A whole drawing that says in words what it shows."""
    return element(
        "svg",
        element("title", title),
        element("desc", text),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        class_="wide" if width > 460 else "small",
        aria_label=f"{title}. {text}",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
    )


def label(x: float, y: float, text: str, class_: str = "", anchor: str = "start") -> Markup:
    """One line of text."""
    return element("text", text, x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through points in pixels."""
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def marks(shape: str, points: Sequence[tuple[float, float]], class_: str, radius: float = 5) -> Markup:
    """A "circle", "square", "diamond" or "triangle" of about equal area at each point in pixels, as one element."""
    start, outline = _outline(shape, radius)
    path = "".join(f"M{x + start[0]:.1f} {y + start[1]:.1f}{outline}" for x, y in points)
    return element("path", d=path, class_=class_)


def _outline(shape: str, radius: float) -> tuple[tuple[float, float], str]:
    """Where the outline starts, from the centre, and its path from there."""
    half, tip, wide = 0.9 * radius, 1.3 * radius, 1.2 * radius
    if shape == "circle":
        arc = f"a{radius:g} {radius:g} 0 1 0"
        return (-radius, 0), f"{arc} {2 * radius:g} 0{arc} {-2 * radius:g} 0z"
    if shape == "square":
        return (-half, -half), f"h{2 * half:g}v{2 * half:g}h{-2 * half:g}z"
    if shape == "diamond":
        return (0, -tip), f"l{tip:g} {tip:g}l{-tip:g} {tip:g}l{-tip:g} {-tip:g}z"
    return (0, -wide), f"l{wide:g} {wide + half:g}h{-2 * wide:g}z"


@dataclass(frozen=True)
class Scale:
    """Maps values in [low, high] to pixels in [start, end], evenly or by logarithm; `whole` allows only whole ticks."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the range: 1-2-5 per decade by logarithm, else evenly spaced."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [m * 10.0**d for d in decades for m in (1, 2, 5) if self.low <= m * 10.0**d <= self.high]
            if len(found) >= 3:
                return found
        return _even_ticks(self.low, self.high, least=1 if self.whole else 0)


def linear_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """A scale over the values with a little air at both ends."""
    low, high = min(values), max(values)
    air = 0.08 * (high - low) or 0.05 * abs(high) or 0.5
    return Scale(low - air, high + air, start, end)


def log_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """A logarithmic scale over positive values with a little air at both ends."""
    low, high = min(values), max(values)
    air = max((high / low) ** 0.1, 1.1)
    return Scale(low / air, high * air, start, end, log=True)


def place(texts: Sequence[str], points: Sequence[tuple[float, float]], taken: Sequence[Box], within: Box) -> list[Box]:
    """A box for the label of each point that touches no box placed before, nor `taken`, and stays `within`.

    Greedy: right, left, above, below, then ever farther; the least crowded place where none is free."""
    placed: list[Box] = []
    for text, point in zip(texts, points, strict=True):
        boxes = [_shift(box, within) for box in _candidates(text_width(text), point)]
        placed.append(min(boxes, key=lambda box: sum(_overlap(box, other) for other in [*placed, *taken])))
    return placed


def text_width(text: str, size: float = 12) -> float:
    """About how wide a text of this font size is, in pixels."""
    return 0.62 * size * len(text) + 2


def shorten(text: str, length: int = 26) -> str:
    """The text, cut with an ellipsis where it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: float | None) -> str:
    """A figure for an axis or a tooltip: four significant digits."""
    if value is None:
        return ""
    return f"{round(value, 10):.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _candidates(width: float, point: tuple[float, float], height: float = 15) -> list[Box]:
    x, y = point
    corners = [(x + 10, y - height / 2), (x - 10 - width, y - height / 2)]
    for far in (4, 18, 32, 46, 60):
        rows = (y - far - height, y + far)
        corners += [(left, top) for top in rows for left in (x + 10, x - 10 - width, x - width / 2)]
    return [(left, top, left + width, top + height) for left, top in corners]


def _shift(box: Box, within: Box) -> Box:
    left, top, right, bottom = box
    dx = max(within[0] - left, 0) + min(within[2] - right, 0)
    dy = max(within[1] - top, 0) + min(within[3] - bottom, 0)
    return left + dx, top + dy, right + dx, bottom + dy


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)


def _even_ticks(low: float, high: float, least: float = 0, about: int = 5) -> list[float]:
    rough = max((high - low) / about, least)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= rough)
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _attribute(name: str) -> str:
    return name if name == "viewBox" else name.rstrip("_").replace("_", "-")


def _short(value: Any) -> Any:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
