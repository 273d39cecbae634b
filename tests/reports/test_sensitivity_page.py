"""The page and the table of what a model loses without its parts, from a hand-written file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reports.sensitivity import build, markdown, rows, sections


def part(kind: str, layer: int, number: int | None, rise: float, accuracy: float | None = 0.8) -> dict[str, Any]:
    about = {"part": kind, "layer": layer, "number": number, "neurons": "0-9" if kind == "neurons" else None}
    change = None if accuracy is None else accuracy - 0.85
    return about | {"accuracy": accuracy, "loss": 0.4 + rise, "accuracy_change": change, "loss_change": rise}


PARTS = [
    *(part("head", layer, head, rise) for layer, head, rise in [(0, 0, 0.3), (0, 2, -0.01), (3, 1, 0.02)]),
    part("layer", 0, None, 0.5),
    part("layer", 3, None, 0.1),
    part("neurons", 3, 0, 0.05),
]


@pytest.fixture
def found(tmp_path: Path) -> Path:
    content = {
        "run": "small", "variant": "<b>cut</b>", "weights": "prune_heads-1234", "split": "validation", "rows": 500,
        "whole": {"accuracy": 0.85, "loss": 0.4}, "removed": PARTS,
    }  # fmt: skip
    path = tmp_path / "sensitivity.json"
    path.write_text(json.dumps(content))
    return path


def test_the_page_needs_nothing_else_and_escapes_names(found: Path) -> None:
    text = build(found).read_text()
    assert "&lt;b&gt;cut" in text
    assert "<b>cut" not in text
    assert not re.search(r"<script|<link rel=.stylesheet|src=|https?://(?!www\.w3\.org)", text)
    assert text.count("<svg") == 2


def test_maps_say_layer_and_number_of_each_part(found: Path) -> None:
    text = build(found).read_text()
    assert "layer 0, head 2: rise of the loss -0.01" in text
    assert "layer 3, group 0: rise of the loss 0.05" in text


def test_what_can_go_comes_first_kind_by_kind(found: Path) -> None:
    told = sections(json.loads(found.read_text()))
    assert [(section.title, [line[0] for line in section.lines]) for section in told] == [
        ("Layers", ["layer 3", "layer 0"]),
        ("Heads", ["layer 0, head 2", "layer 3, head 1", "layer 0, head 0"]),
        ("Feed-forward neurons", ["layer 3, neurons 0-9"]),
    ]
    assert told[1].lines[0] == ("layer 0, head 2", "0.800", "-0.050", "0.3900", "-0.0100")


def test_rows_start_with_the_whole_model_and_keep_the_order_of_the_model(found: Path) -> None:
    first, *rest = rows(found)
    assert (first["part"], first["accuracy"], first["loss_change"]) == ("none", 0.85, None)
    assert rest == PARTS


def test_markdown_has_a_line_a_part(found: Path) -> None:
    lines = markdown(found).splitlines()
    assert len(lines) == 2 + len(PARTS) + 2
    assert lines[-1].endswith("The whole model: accuracy 0.850, loss 0.4000 on 500 validation rows.")


def test_without_accuracy_there_is_a_dash(found: Path) -> None:
    content = json.loads(found.read_text())
    content["whole"]["accuracy"] = None
    content["removed"] = [part("head", 0, 0, 0.1, accuracy=None)]
    found.write_text(json.dumps(content))
    (section,) = sections(content)
    assert section.lines[0][1:3] == ("–", "–")
    assert "accuracy 0" not in build(found).read_text()
