"""Charts as inline SVG: a trade-off scatter, and lines over layers or training steps.

Nothing is told by colour alone: points have shapes and labels, lines have dashes and marks, and every point of the
scatter has its figures as a tooltip. The page gives each chart its table beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from reports.svg import (
    Box,
    Scale,
    element,
    figure,
    label,
    line,
    linear_scale,
    log_scale,
    marks,
    number,
    place,
    polyline,
    shorten,
    text_width,
)

SHAPES = ("circle", "square", "triangle", "diamond")
LOOKS = 5  # of lines, in the style sheet; marks start over
MOST_MARKS = 40


@dataclass(frozen=True)
class Frame:
    """Size of a chart and of the margins around its plot, in pixels."""

    width: float
    height: float
    left: float = 58
    right: float = 18
    top: float = 16
    bottom: float = 46

    @property
    def box(self) -> Box:
        """The plot itself."""
        return self.left, self.top, self.width - self.right, self.height - self.bottom


@dataclass(frozen=True)
class Point:
    """A model in a trade-off: `low` and `high` bound `y`; `kind` is "variant", "torch" or "onnx" (the baselines)."""

    name: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    kind: str = "variant"
    best: bool = False


@dataclass(frozen=True)
class Series:
    """A named line. `points` are x, y; `bounds` are low, high of each point or empty; `look` picks dash and mark."""

    name: str
    points: Sequence[tuple[float, float]]
    bounds: Sequence[tuple[float | None, float | None]] = field(default=())
    look: int = 0


def scatter(points: Sequence[Point], x_name: str, y_name: str, title: str) -> Markup:
    """Cost on a logarithmic x axis against quality with its interval; the Pareto front is drawn as a line."""
    frame = Frame(760, 400, right=104)
    left, top, right, bottom = frame.box
    x = log_scale([point.x for point in points], left, right)
    y = linear_scale([v for point in points for v in (point.y, point.low, point.high) if v is not None], bottom, top)
    front = sorted((point for point in points if point.best), key=lambda point: point.x)
    parts = [_axes(frame, x, y, x_name, y_name), polyline([(x(p.x), y(p.y)) for p in front], "front")]
    parts += _point_labels(points, x, y, (left, top, frame.width - 4, bottom))
    parts += [_point(point, x(point.x), y, x_name, y_name) for point in points]
    return figure(title, _told(points, x_name, y_name), frame.width, frame.height, *parts)


def lines(
    series: Sequence[Series],
    x_name: str,
    y_name: str,
    title: str,
    levels: Mapping[str, float] | None = None,
    y_range: tuple[float, float] | None = None,
    x_range: tuple[float, float] | None = None,
    frame: Frame | None = None,
) -> Markup:
    """Curves with their intervals, named at their ends, and horizontal reference `levels`."""
    levels = levels or {}
    names = [*(one.name for one in series), *levels]
    frame = frame or Frame(430, 260)
    frame = Frame(frame.width, frame.height, right=12 + max(text_width(shorten(name, 18), 11) for name in names))
    left, top, right, bottom = frame.box
    xs = [x for one in series for x, _ in one.points]
    x = Scale(*(x_range or _wide(min(xs), max(xs))), left, right, whole=True)
    y = linear_scale(y_range or y_values(series, levels), bottom, top)
    parts = [_axes(frame, x, y, x_name, y_name)]
    parts += [line(left, y(value), right, y(value), "level") for value in levels.values()]
    parts += [_curve(one, x, y) for one in series]
    parts += _end_labels(series, levels, y, right, bottom)
    return figure(title, _told_lines(series, levels, x_name), frame.width, frame.height, *parts)


def y_values(series: Sequence[Series], levels: Mapping[str, float]) -> tuple[float, float]:
    """The lowest and highest value that a chart of these must hold, intervals included."""
    bounds = [v for one in series for pair in one.bounds for v in pair if v is not None]
    values = [*(y for one in series for _, y in one.points), *bounds, *levels.values()]
    return min(values), max(values)


def _axes(frame: Frame, x: Scale, y: Scale, x_name: str, y_name: str) -> Markup:
    left, top, right, bottom = frame.box
    parts = [line(left, y(tick), right, y(tick), "grid") for tick in y.ticks()]
    parts += [label(left - 8, y(tick) + 4, number(tick), "tick", "end") for tick in y.ticks()]
    parts += [line(x(tick), bottom, x(tick), bottom + 4, "axis") for tick in x.ticks()]
    parts += [label(x(tick), bottom + 18, number(tick), "tick", "middle") for tick in x.ticks()]
    parts += [line(left, bottom, right, bottom, "axis")]
    parts += [label((left + right) / 2, frame.height - 6, x_name, "name", "middle")]
    turned = f"translate(13 {(top + bottom) / 2:.0f}) rotate(-90)"
    return Markup("").join([*parts, element("text", y_name, class_="name", text_anchor="middle", transform=turned)])


def _point(point: Point, x: float, y: Scale, x_name: str, y_name: str) -> Markup:
    shape = {"torch": "square", "onnx": "diamond"}.get(point.kind, "circle")
    look = "base" if point.kind != "variant" else "on-front" if point.best else "off-front"
    bounds = (
        f" ({number(point.low)} to {number(point.high)})" if point.low is not None and point.high is not None else ""
    )
    tip = f"{point.name}: {x_name} {number(point.x)}, {y_name} {number(point.y)}{bounds}"
    whisker = _whiskers([(x, point.low, point.high)], y, 4)
    return element("g", element("title", tip), whisker, marks(shape, [(x, y(point.y))], f"point {look}"))


def _whiskers(spans: Iterable[tuple[float, float | None, float | None]], y: Scale, arm: int) -> Markup:
    """Intervals (x in pixels, low, high) as one element; those without bounds are left out."""
    known = [(x - arm, y(low), y(high)) for x, low, high in spans if low is not None and high is not None]
    ends = f"h{2 * arm}m{-arm} 0"
    path = "".join(f"M{left:.1f} {high:.1f}{ends}V{low:.1f}m{-arm} 0h{2 * arm}" for left, low, high in known)
    return element("path", d=path, class_="whisker") if path else Markup("")


def _point_labels(points: Sequence[Point], x: Scale, y: Scale, within: Box) -> list[Markup]:
    texts = [shorten(point.name) for point in points]
    at = [(x(point.x), y(point.y)) for point in points]
    marks = [(px - 7, py - 7, px + 7, py + 7) for px, py in at]
    spans = [(point.low, point.high, x(point.x)) for point in points]
    whiskers = [(px - 2, y(high), px + 2, y(low)) for low, high, px in spans if low is not None and high is not None]
    boxes = place(texts, at, [*marks, *whiskers], within)
    leaders = [line(*point, *_nearest(box, point), "leader") for box, point in zip(boxes, at, strict=True)]
    return leaders + [label(box[0], box[3] - 4, text, "point-name") for box, text in zip(boxes, texts, strict=True)]


def _nearest(box: Box, point: tuple[float, float]) -> tuple[float, float]:
    """The place in the box closest to the point."""
    return min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3])


def _curve(one: Series, x: Scale, y: Scale) -> Markup:
    """Long curves have no marks: their points would run into each other."""
    at, look = [(x(a), y(b)) for a, b in one.points], one.look % LOOKS
    spans = [(px, *pair) for (px, _), pair in zip(at, one.bounds, strict=False)]
    dots = marks(SHAPES[look % len(SHAPES)], at, f"mark look-{look}", 3) if len(at) <= MOST_MARKS else ""
    return Markup("").join([_whiskers(spans, y, 3), polyline(at, f"line look-{look}"), dots])


def _end_labels(
    series: Sequence[Series], levels: Mapping[str, float], y: Scale, right: float, bottom: float
) -> list[Markup]:
    ends = [(y(one.points[-1][1]), one.name, f"end look-{one.look % LOOKS}") for one in series if one.points]
    ends += [(y(value), name, "end level-name") for name, value in levels.items()]
    ends.sort()
    heights = _spread([height for height, _, _ in ends], 14, bottom)
    return [
        label(right + 7, height + 4, shorten(name, 18), look)
        for height, (_, name, look) in zip(heights, ends, strict=True)
    ]


def _spread(heights: Sequence[float], least: float, bottom: float) -> list[float]:
    """Sorted positions pushed apart to at least `least` pixels, down first, and up again from `bottom`."""
    spread: list[float] = []
    for height in heights:
        spread.append(max(height, spread[-1] + least) if spread else height)
    for at in range(len(spread) - 1, -1, -1):
        spread[at] = min(spread[at], spread[at + 1] - least if at + 1 < len(spread) else bottom)
    return spread


def _wide(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _told(points: Sequence[Point], x_name: str, y_name: str) -> str:
    each = [f"{point.name} {number(point.x)}, {number(point.y)}" for point in points]
    return f"{x_name}, {y_name} of each model: {'; '.join(each)}."


def _told_lines(series: Sequence[Series], levels: Mapping[str, float], x_name: str) -> str:
    each = [
        f"{one.name} from {number(one.points[0][1])} to {number(one.points[-1][1])}" for one in series if one.points
    ]
    return f"Along {x_name}: {'; '.join([*each, *(f'{name} at {number(value)}' for name, value in levels.items())])}."
