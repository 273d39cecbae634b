"""What attention heads do, and which of the full model's a variant lost: the section of the heads probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from reports.collect import Run
from reports.findings import Found, shared
from reports.svg import Scale, element, figure, label, marks, place

Head = Mapping[str, Any]
WIDTH, HEIGHT, EDGE = 430, 300, 24
MOST_NAMES = 30  # in a picture
MOST_HEADS = 200  # in a table; of more only those with a role are shown


@dataclass(frozen=True)
class HeadRoles:
    """One model: its heads in the plane of their likeness, those of the table (`of` so many), and the shapes' accuracy.

    `lost` says in words what went and `by_role` counts it; None and empty for the full model itself."""

    found: Found
    plane: Markup
    heads: tuple[Head, ...]
    of: int
    shapes: tuple[Mapping[str, Any], ...]
    lost: str | None
    by_role: tuple[Mapping[str, Any], ...]
    trees: Mapping[str, Any]


def head_roles(run: Run) -> list[HeadRoles]:
    """What the heads probe found on each distinct model."""
    return [_head_roles(found) for found in shared(run, "heads") if found.result.details.get("heads")]


def _head_roles(found: Found) -> HeadRoles:
    details = found.result.details
    heads, lost = details["heads"], details.get("lost")
    return HeadRoles(
        found=found,
        plane=_plane(heads, f"Heads by what they look at, {found.title}"),
        heads=tuple(
            {**head, "offset": told_offset(head["offset"])}
            for head in (heads if len(heads) <= MOST_HEADS else _with_role(heads))
        ),
        of=len(heads),
        shapes=tuple(details.get("pattern_classifier") or ()),
        lost=None if lost is None else told_lost(lost),
        by_role=tuple(lost["by_role"]) if lost else (),
        trees=details.get("trees") or {},
    )


def told_lost(lost: Mapping[str, Any]) -> str:
    """What the heads that a variant lost did in the full model, in a sentence."""
    gone = lost["heads"]
    if not gone:
        return f"All {lost['of']} heads of the full model are there."
    named = [f"{', '.join(head['roles'])} ({_name(head)})" for head in _with_role(gone)]
    rest = len(gone) - len(named)
    parts = [*named, *([f"{rest} without a role"] if rest else [])]
    return f"{len(gone)} of {lost['of']} heads are gone: {'; '.join(parts)}."


def told_offset(offset: int | Sequence[int]) -> str:
    """Tokens after the one that looks, below 0 before it; of images the patches (down, right) of it in words."""
    if isinstance(offset, int):
        return str(offset)
    ways = (("up", "down"), ("left", "right"))
    parts = [f"{abs(step)} {way[step > 0]}" for step, way in zip(offset, ways, strict=True) if step]
    return ", ".join(parts) or "itself"


def _with_role(heads: Sequence[Head]) -> list[Head]:
    return [head for head in heads if head["roles"]]


def _name(head: Head) -> str:
    return f"layer {head['layer']}, head {head['head']}"


def _plane(heads: Sequence[Head], title: str) -> Markup:
    """Heads that look alike are close; those with a role are filled, and named by layer.head."""
    x, y = _scales(heads)
    points = [(x(head["x"]), y(head["y"])) for head in heads]
    dots = [_dot(head, point) for head, point in zip(heads, points, strict=True)]
    named = [(head, point) for head, point in zip(heads, points, strict=True) if head["roles"]][:MOST_NAMES]
    texts, spots = [f"{head['layer']}.{head['head']}" for head, _ in named], [point for _, point in named]
    boxes = place(texts, spots, [(px - 6, py - 6, px + 6, py + 6) for px, py in points], (0, 0, WIDTH, HEIGHT))
    labels = [label(box[0], box[3] - 4, text, "point-name") for box, text in zip(boxes, texts, strict=True)]
    told = f"{len(heads)} heads, {len(_with_role(heads))} of them with a role, which are filled."
    return figure(title, told, WIDTH, HEIGHT, *dots, *labels)


def _scales(heads: Sequence[Head]) -> tuple[Scale, Scale]:
    """Of one size in both directions, since distances are what the picture shows."""
    spans = [[head[axis] for head in heads] for axis in ("x", "y")]
    middles = [(min(values) + max(values)) / 2 for values in spans]
    room = (WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE)
    unit = max((max(values) - min(values)) / pixels for values, pixels in zip(spans, room, strict=True)) or 1
    low, high = (
        [middle + side * unit * pixels / 2 for middle, pixels in zip(middles, room, strict=True)] for side in (-1, 1)
    )
    return Scale(low[0], high[0], EDGE, WIDTH - EDGE), Scale(low[1], high[1], HEIGHT - EDGE, EDGE)


def _dot(head: Head, point: tuple[float, float]) -> Markup:
    tip = f"{_name(head)}: {', '.join(head['roles']) or 'no role'}; group {head['cluster']}"
    look = "point on-front" if head["roles"] else "point off-front"
    return element("g", element("title", tip), marks("circle", [point], look, 4))
