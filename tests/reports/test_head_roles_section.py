from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from assay.core.manifest import write_json
from reports.build import render
from reports.collect import collect
from reports.head_roles import MOST_HEADS, head_roles, told_lost, told_offset


def head(layer: int, number: int, *roles: str) -> dict[str, Any]:
    figures = {"offset": -1, "offset_share": 0.95, "separators": 0.1, "rarest": 0.0, "pattern": "diagonal"}
    return {
        "layer": layer,
        "head": number,
        "roles": list(roles),
        "cluster": number,
        "x": 0.1 * number,
        "y": 0.3,
    } | figures


LOST = {
    "of": 4,
    "heads": [{"layer": 2, "head": 0, "roles": ["positional"]}, {"layer": 2, "head": 3, "roles": []}],
    "by_role": [{"role": "positional", "of": 2, "lost": 1, "kept": 1, "still": 1}],
}


def add(folder: Path, variant: str, **details: Any) -> None:
    found = {"heads": [head(0, 0, "positional"), head(0, 3)], "lost": None, "pattern_classifier": []} | details
    about = {"key": "k", "probe": "heads", "settings": {}, "variant": variant, "examined": "graph", "metrics": []}
    rest = {"skipped": None, "failed": None, "seconds": 1.0, "details": found}
    write_json(folder / "results" / variant / "probes" / "heads.json", about | rest)


def test_what_was_lost_is_told_by_role_with_original_numbers() -> None:
    assert told_lost(LOST) == "2 of 4 heads are gone: positional (layer 2, head 0); 1 without a role."
    assert told_lost(LOST | {"heads": []}) == "All 4 heads of the full model are there."


def test_the_section_shows_each_model_and_its_losses(folder: Path) -> None:
    add(folder, "teacher")
    add(folder, "fewer_heads", lost=LOST)
    run = collect(folder)
    full, pruned = head_roles(run)
    assert (full.lost, full.by_role) == (None, ())
    assert pruned.by_role == tuple(LOST["by_role"])  # type: ignore[arg-type]
    tips = re.findall(r"<title>(layer[^<]*)</title>", full.plane)
    assert tips == ["layer 0, head 0: positional; group 0", "layer 0, head 3: no role; group 3"]
    assert re.findall(r'class="point-name"[^>]*>([^<]*)', full.plane) == ["0.0"]
    page = render(run)
    assert "2 of 4 heads are gone: positional (layer 2, head 0); 1 without a role." in page
    assert page.count('href="#head-roles"') == page.count('id="head-roles"') == 1


def test_with_a_treebank_relations_and_the_best_tree_are_shown(folder: Path) -> None:
    relation = {"relation": "obj", "looks": "to its head", "share": 0.8, "baseline": 0.4, "n": 60}
    best = {"layer": 0, "head": 3, "uuas": 0.625, "low": 0.5, "high": 0.7}
    trees = {"best": best, "edges": 300, "next_word_uuas": 0.44, "random_uuas": 0.21, "sentences": 60, "left_out": 0}
    follower = head(0, 3, "syntactic") | {"relations": [relation], "uuas": 0.625}
    add(folder, "teacher", heads=[head(0, 0) | {"relations": [], "uuas": 0.3}, follower], trees=trees)
    page = render(collect(folder))
    assert "syntactic: obj to its head" in page
    assert "layer 0, head 3, with 0.625 of 300 edges; each word joined to the next 0.440, by chance 0.210" in page


def test_where_a_head_looks_is_a_distance_in_texts_and_steps_in_images(folder: Path) -> None:
    assert [told_offset(each) for each in (-1, 0, [-1, 0], [2, -1], [0, 1], [0, 0])] == [
        "-1", "0", "1 up", "2 down, 1 left", "1 right", "itself",
    ]  # fmt: skip
    add(folder, "teacher", heads=[head(0, 0, "positional") | {"offset": [-1, 0]}, head(0, 3) | {"offset": [0, 2]}])
    path = folder / "run.json"
    assert "Rarest token" in render(collect(folder))
    write_json(path, json.loads(path.read_text()) | {"task": "image-classification"})
    page = render(collect(folder))
    assert "<td>1 up</td><td>0.950</td>" in page
    assert "<td>2 right</td>" in page
    assert "Rarest token" not in page


def test_heads_that_all_look_alike_still_make_a_picture(folder: Path) -> None:
    same = [head(0, 0) | {"x": 0.0, "y": 0.0}, head(0, 1) | {"x": 0.0, "y": 0.0}]
    add(folder, "teacher", heads=same)
    assert "nan" not in head_roles(collect(folder))[0].plane


def test_of_very_many_heads_the_table_has_those_with_a_role(folder: Path) -> None:
    add(folder, "teacher", heads=[head(0, 0, "separator"), *(head(1, at) for at in range(MOST_HEADS))])
    (found,) = head_roles(collect(folder))
    assert (len(found.heads), found.of) == (1, MOST_HEADS + 1)
    assert f"Heads with a role, 1 of {MOST_HEADS + 1}" in render(collect(folder))


def test_without_the_probe_there_is_no_section(folder: Path) -> None:
    assert 'id="head-roles"' not in render(collect(folder))
