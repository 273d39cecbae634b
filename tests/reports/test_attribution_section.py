from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_up_run import NASTY

from assay.core.manifest import write_json
from reports.attribution import attribution
from reports.build import render
from reports.collect import collect

ALIKE = {"n": 9, "spearman": 0.8125, "low": 0.7, "high": 0.9, "overlap": 0.75, "chance": 0.25}
NEVER = {"n": 0, "spearman": None, "low": None, "high": None, "overlap": None, "chance": None}
FAITHFUL = {"comprehensiveness": 0.4, "comprehensiveness_random": 0.1, "sufficiency": 0.05, "sufficiency_random": 0.3}


def details(**changes: Any) -> dict[str, Any]:
    """Occlusion on a variant whose answers never flipped, and one row of four words."""
    return {
        "agreement": [
            {"method": "occlusion", "rows": "all"} | ALIKE,
            {"method": "occlusion", "rows": "flipped"} | NEVER,
        ],
        "between_methods": [],
        "faithfulness": [{"method": "occlusion"} | FAITHFUL],
        "completeness": None,
        "notes": ["occlusion alone is reported"],
        "examples": [
            {"row": 7, "method": "occlusion", "words": ["a", "great", NASTY, "film"], "of": 6, "answer": "positive",
             "values": [0.01, 2.0, -1.0, 0.5], "teacher_answer": "negative", "teacher_values": [0, 0, 0, 0]},
        ],
    } | changes  # fmt: skip


@pytest.fixture
def add(folder: Path) -> Callable[..., Path]:
    """Writes findings of the probe for one variant of the made-up run."""

    def write(variant: str, found: dict[str, Any]) -> Path:
        path = folder / "results" / variant / "probes" / "attribution.json"
        about = json.loads((path.parent / "patience.json").read_text())
        write_json(path, about | {"probe": "attribution", "details": found})
        return folder

    return write


def test_figures_stand_beside_their_controls_and_what_is_not_there_is_a_dash(add: Callable[..., Path]) -> None:
    (found,) = attribution(collect(add("int8", details())))
    (figures,) = found.figures
    assert figures.method == "Occlusion"
    assert figures.alike == {"all": "0.812 (0.70 to 0.90), 9 rows", "flipped": "–"}
    assert figures.overlap == "0.750 against 0.250"
    assert (figures.comprehensiveness, figures.sufficiency) == ("0.400 against 0.100", "0.050 against 0.300")
    (teacher,) = [each for each in attribution(collect(add("teacher", details(agreement=[])))) if each is not found][:1]
    assert (teacher.figures[0].alike, teacher.figures[0].overlap) == (None, "–")


def test_words_are_shaded_by_their_share_of_the_strongest_and_say_which_way(add: Callable[..., Path]) -> None:
    ((example,),) = [each.examples for each in attribution(collect(add("int8", details())))]
    teacher, own = example.lines
    assert (own.name, own.answer, teacher.answer, example.more) == ("int8", "positive", "negative", 2)
    assert [word.shade for word in own.words] == ["", "for-4", "against-2", "for-1"]
    assert [word.told for word in own.words] == ["+0.01", "+2", "-1", "+0.5"]
    assert {word.shade for word in teacher.words} == {""}


class Shaded(HTMLParser):
    """Title and text of each shaded word."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str]] = []
        self.title: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.title = given.get("title") if "says" in (given.get("class") or "") else None

    def handle_data(self, data: str) -> None:
        if self.title is not None:
            self.found.append((self.title, data))
            self.title = None


def test_the_page_has_the_words_as_text_with_their_figures_and_no_section_without_the_probe(
    folder: Path, add: Callable[..., Path]
) -> None:
    assert 'id="attribution"' not in render(collect(folder))
    page = render(collect(add("int8", details())))
    shaded = Shaded()
    shaded.feed(page)
    assert shaded.found == [("+2", "great"), ("-1", NASTY), ("+0.5", "film")]
    assert page.count('href="#attribution"') == 1
    assert "occlusion alone is reported" in page
    assert "<script" not in page
