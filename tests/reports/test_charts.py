from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations, pairwise

import pytest

from reports.charts import Point, Series, lines, scatter
from reports.heat_map import heat_map
from reports.svg import Scale, log_scale, place, text_width

SVG = "{http://www.w3.org/2000/svg}"
POINTS = [
    Point("teacher", 27.0, 0.85, 0.83, 0.87, "torch"),
    Point("teacher_onnx", 15.0, 0.85, 0.83, 0.87, "onnx", best=True),
    Point("int8", 12.0, 0.84, 0.82, 0.86, best=True),
    Point("a<b&c", 14.0, 0.80, None, None),
]


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str, look: str) -> list[str | None]:
    return [item.text for item in parsed(svg).iter(f"{SVG}text") if look in item.get("class", "")]


@pytest.mark.parametrize(
    "svg",
    [
        scatter(POINTS, "latency, ms", "accuracy", "Trade"),
        lines([Series("probe", [(0, 0.5), (1, 0.7)], [(0.4, 0.6), (None, None)])], "layer", "accuracy", "Probe"),
        heat_map({(0, 0): 1.0, (0, 1): 2.0}, "Heads", "entropy"),
    ],
    ids=["scatter", "lines", "heat_map"],
)
def test_charts_are_images_that_say_what_they_show(svg: str) -> None:
    root = parsed(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert re.search(r"\d", root[1].text or "")


def test_scatter_names_every_point_and_tells_kinds_by_shape() -> None:
    svg = scatter(POINTS, "latency, ms", "accuracy", "Trade")
    assert set(texts(svg, "point-name")) == {point.name for point in POINTS}
    drawn = [item for item in parsed(svg).iter(f"{SVG}path") if "point " in item.get("class", "")]
    assert [item.get("class") for item in drawn] == ["point base", "point base", "point on-front", "point off-front"]
    outlines = [(item.get("d") or "").partition(" ")[2].lstrip("0123456789.") for item in drawn]
    assert len(set(outlines[:3])) == 3  # square, diamond, circle
    assert outlines[2] == outlines[3]


def test_scatter_draws_a_whisker_only_where_there_is_an_interval() -> None:
    whiskers = [item for item in parsed(scatter(POINTS, "x", "y", "t")).iter() if item.get("class") == "whisker"]
    assert len(whiskers) == 3


def test_a_single_point_has_a_chart() -> None:
    assert texts(scatter(POINTS[:1], "x", "y", "t"), "point-name") == ["teacher"]


def test_labels_of_crowded_points_do_not_overlap() -> None:
    names = [f"variant_{n}" for n in range(8)]
    points = [(200 + 9.0 * n, 100 + 3.0 * (n % 3)) for n in range(8)]
    boxes = place(names, points, [], (0, 0, 600, 300))
    for one, two in combinations(boxes, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
    alone = place(names[:1], points[:1], [], (0, 0, 600, 300))[0]
    assert alone[0] - points[0][0] == 10  # beside its point when nothing is in the way


def test_labels_stay_within_the_chart() -> None:
    (left, top, right, bottom), *_ = place(["a_long_name"], [(298.0, 2.0)], [], (0, 0, 300, 200))
    assert left >= 0
    assert top >= 0
    assert right <= 300
    assert bottom <= 200
    assert right - left == pytest.approx(text_width("a_long_name"))


def test_lines_name_their_ends_apart_and_mark_reference_levels() -> None:
    series = [Series(f"s{n}", [(0, 0.5), (1, 0.5)], look=n) for n in range(4)]
    svg = lines(series, "layer", "accuracy", "Probe", {"majority": 0.5})
    ends = [item for item in parsed(svg).iter(f"{SVG}text") if "end" in item.get("class", "").split()]
    heights = sorted(float(item.get("y", 0)) for item in ends)
    assert {item.text for item in ends} == {"s0", "s1", "s2", "s3", "majority"}
    assert min(b - a for a, b in pairwise(heights)) >= 13.9
    assert sum(item.get("class") == "level" for item in parsed(svg).iter()) == 1


def test_layers_have_whole_ticks() -> None:
    svg = lines([Series("probe", [(n, 0.5 + 0.01 * n) for n in range(4)])], "layer", "accuracy", "Probe")
    assert [text for text in texts(svg, "tick") if text and "." not in text] == ["0", "1", "2", "3"]


def test_heat_map_crosses_removed_heads_and_shades_by_value() -> None:
    svg = heat_map({(0, 0): 0.0, (0, 1): 1.0, (4, 0): 0.5}, "Heads", "importance", removed={(0, 0), (4, 1)})
    cells = {item[0].text: float(item.get("fill-opacity", 0)) for item in parsed(svg).iter(f"{SVG}rect") if len(item)}
    assert cells == {
        "layer 0, head 0: importance 0, removed": 0.06,
        "layer 0, head 1: importance 1": 1.0,
        "layer 4, head 0: importance 0.5": 0.53,
    }
    assert sum(item.get("class") == "cross" for item in parsed(svg).iter()) == 2
    assert [text for text in texts(svg, "tick") if text and text.startswith("layer")] == ["layer 0", "layer 4"]


def test_maps_with_one_span_give_equal_values_equal_shades() -> None:
    shades = [
        parsed(heat_map(values, "Heads", "entropy", span=(0, 4))).findall(f"{SVG}rect")[0].get("fill-opacity")
        for values in ({(0, 0): 2.0}, {(0, 0): 2.0, (0, 1): 3.9})
    ]
    assert shades[0] == shades[1] == "0.53"


def test_scales_put_round_ticks_inside() -> None:
    assert log_scale([3.8, 27], 0, 100).ticks() == [5, 10, 20]
    assert Scale(0.72, 0.91, 100, 0).ticks() == pytest.approx([0.75, 0.8, 0.85, 0.9])
    scale = Scale(1, 100, 0, 200, log=True)
    assert [scale(value) for value in (1, 10, 100)] == pytest.approx([0, 100, 200])
