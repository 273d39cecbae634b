from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reports.build import render
from reports.collect import Run, collect
from reports.findings import missing
from reports.likeness import likeness


def change_comparison(folder: Path, at: int, **changes: object) -> None:
    path = folder / "results" / "half_depth" / "probes" / "similarity.json"
    data = json.loads(path.read_text())
    data["details"]["comparisons"][at] |= changes
    path.write_text(json.dumps(data))


def test_a_map_has_a_row_for_each_layer_and_a_column_for_each_of_the_teachers(run: Run) -> None:
    full, half = likeness(run)
    assert full.found.names == ("teacher", "teacher_onnx", "int8", "fewer_heads")
    texts, tokens = half.maps
    assert (texts.title, tokens.title) == ("Vectors of texts, 120", "Vectors of tokens, 960")
    assert [layer for layer, _ in texts.rows] == [0, 1, 3]
    assert texts.columns == (0, 1, 2, 3)
    told = re.findall(r"<title>layer (\d), teacher layer (\d): CKA ([\d.]+)</title>", texts.chart)
    assert len(told) == 12
    assert ("3", "2", "0.7") in told
    assert [row["layer"] for row in texts.same] == [0, 1, 3]
    assert full.maps[0].same == ()  # the teacher with itself
    assert texts.same[2] == {"layer": 3, "cka": 1, "rsa": 1, "svcca": 0.9, "procrustes": 0.9}


def test_maps_share_their_colours_and_a_value_below_0_is_the_faintest(folder: Path) -> None:
    change_comparison(folder, 0, cka=[[1.0, -0.02, None, 0.5]], layers=[0])
    _, half = likeness(collect(folder))
    shades = dict(re.findall(r'fill-opacity="([\d.]+)"><title>(layer 0, teacher layer \d)', half.maps[0].chart))
    assert shades == {
        "1": "layer 0, teacher layer 0",
        "0.06": "layer 0, teacher layer 1",
        "0.53": "layer 0, teacher layer 3",
    }


def test_vectors_that_could_not_be_compared_have_their_reason(folder: Path) -> None:
    change_comparison(folder, 1, skipped="they are other tokens")
    run = collect(folder)
    told = [(names, why) for names, what, why in missing(run) if what == "probe similarity, vectors of tokens"]
    assert told == [("half_depth", "skipped, because they are other tokens")]
    assert [each.title for each in likeness(run)[1].maps] == ["Vectors of texts, 120"]


@pytest.mark.parametrize("probe", ["similarity", "attention"])
def test_the_section_is_there_when_the_probe_ran_and_else_not(folder: Path, probe: str) -> None:
    for path in folder.glob(f"results/*/probes/{probe}.json"):
        path.unlink()
    page = render(collect(folder))
    assert ("States, layer against layer" in page) == (probe != "similarity")
    assert ("CKA, last layer" in page) == (probe != "similarity")
