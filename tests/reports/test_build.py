from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_up_run import NASTY, models, write_run

from assay.core.errors import InputError
from reports.build import build
from reports.collect import Run

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Counts elements, joins the text of each, and checks that they nest."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[str] = Counter()
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.comments: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    @property
    def text(self) -> str:
        return " ".join(text for text in self.texts if text)


def page_of(folder: Path) -> Page:
    return Page(build(folder).read_text(encoding="utf-8"))


def test_the_page_is_whole_and_stands_alone(folder: Path) -> None:
    path = build(folder)
    page = Page(path.read_text())
    assert path == folder / "report.html"
    assert page.open == []
    assert page.elements["script"] == 0
    assert page.elements["main"] == page.elements["h1"] == 1
    assert len(page.ids) == len(set(page.ids))
    links = [value for name, value in page.attributes if name in ("href", "src")]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert {link[1:] for link in links if link.startswith("#")} <= set(page.ids)
    assert "url(" not in path.read_text()
    assert not list(folder.glob(".report*"))


def test_sections_tell_what_the_run_has(folder: Path) -> None:
    text = page_of(folder).text
    for words in (
        "Best trade", "99.0 %", "2.2× faster than the teacher in PyTorch (27.0 ms)", "Trade-off",
        "3 of 12 heads removed", "bigram_shift", "Attention statistics", "52.0 %", "batch 1, no padding",
        "Patience score", "skipped, because it needs a masked language model", "now wrong", "avx512_vnni",
        "prune_layers.keep: 9 is more than the 3 layers of the model", "Blank texts", "What these numbers do not say",
    ):  # fmt: skip
        assert words in text, words


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    def built(hostile: str) -> Page:
        chosen = models()
        chosen[2].name = hostile
        run = write_run(
            tmp_path / hostile[:4].strip("<"), chosen, (hostile, "positive"), hostile, name=hostile, config=hostile
        )
        return page_of(run)

    hostile, plain = built(NASTY), built("plain")
    assert hostile.elements == plain.elements
    assert hostile.comments == []
    assert hostile.texts.count(NASTY) >= 10
    assert "alert(1)" in hostile.text
    assert "<b" not in "".join(name for name, _ in hostile.attributes)


def test_a_tiny_run_says_so_once_and_shows_no_headline_figures(tmp_path: Path) -> None:
    tiny, full = (page_of(write_run(tmp_path / str(answer), tiny=answer)) for answer in (True, False))
    assert (tiny.text.count("its figures mean nothing"), full.text.count("its figures mean nothing")) == (1, 0)
    assert ("class", "tiles") not in tiny.attributes
    assert ("class", "tiles") in full.attributes


def test_null_like_text_stays_text(tmp_path: Path) -> None:
    assert "null" in page_of(write_run(tmp_path / "run", labels=("null", "NaN"))).texts


def test_a_run_without_results_has_a_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", models(), finished=None)
    for path in [*folder.glob("results/**/*.*"), folder / "measure.json", folder / "data" / "data.json"]:
        path.unlink()
    page = page_of(folder)
    assert page.text.count("Not measured yet") >= 4
    assert "The run is not finished" in page.text


@pytest.mark.parametrize("task", ["text-regression", "multi-label-classification"])
def test_other_tasks_have_a_page(tmp_path: Path, task: str) -> None:
    folder = write_run(tmp_path / "run", models()[:2], task=task, labels=())
    for path in folder.glob("results/*/predictions.parquet"):
        path.unlink()
    assert page_of(folder).elements["section"] > 5


def test_no_variants_at_all_still_gives_a_page(tmp_path: Path) -> None:
    assert "Nothing" in page_of(write_run(tmp_path / "run", [])).text


def test_a_large_run_stays_under_one_megabyte(tmp_path: Path) -> None:
    base = models()[:5]
    for n in range(5):
        base.append(models()[2])
        base[-1].name = f"variant_{n}"
    folder = write_run(tmp_path / "run", base, text="word " * 5000)
    for at, path in enumerate(sorted(folder.glob("results/*/probes/*.json"))):
        _enlarge(path, at)
    assert build(folder).stat().st_size < 1_000_000


def _enlarge(path: Path, at: int) -> None:
    """Details of a model with 24 layers of 16 heads, and no two alike."""
    data: dict[str, Any] = json.loads(path.read_text())
    if path.stem == "attention":
        heads = [{"head": h, "entropy": 1.234567 + at + h, "distance": 9.1, "separators": 0.3} for h in range(16)]
        data["details"]["layers"] = [{"layer": n, "heads": heads} for n in range(24)]
    if path.stem == "linear":
        row = {"accuracy": 0.61234 + at / 1000, "low": 0.57, "high": 0.66, "control": 0.4, "selectivity": 0.2}
        rows = [row | {"layer": n, "pooling": pooling} for pooling in ("mean", "first") for n in range(25)]
        data["details"]["tasks"] = [
            {"task": name, "majority": 0.4, "chance": 0.3, "n_train": 1, "n_test": 1, "layers": rows} for name in "abc"
        ]
    path.write_text(json.dumps(data))


def test_a_failing_build_leaves_the_old_page(folder: Path) -> None:
    before = build(folder).read_text()
    (folder / "run.json").write_text("{")
    with pytest.raises(InputError):
        build(folder)
    assert (folder / "report.html").read_text() == before


def test_two_overlapping_names_of_probes_make_no_equal_ids(run_of: Callable[..., Run], tmp_path: Path) -> None:
    run_of(job={"probes": [{"linear": {}}, {"patience": {}}]})
    ids = page_of(tmp_path / "other").ids
    assert len(ids) == len(set(ids))
