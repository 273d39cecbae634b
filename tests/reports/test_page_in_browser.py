"""The page in a real browser without a head: it renders, complains of nothing and asks the network for nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from made_up_run import NASTY, models, write_run

from reports.build import build

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# The browser's own calls home find no host; what the page asks for is recorded all the same.
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars",
         "--host-resolver-rules=MAP * ~NOTFOUND")  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine to open the page with")


@dataclass
class Visit:
    """What the browser wrote: the page's DOM, its messages, and every address that the page asked for."""

    dom: str
    messages: str
    requests: set[str]


def browse(page: Path, *options: str) -> str:
    """Run the browser on a file with a profile of its own and return what it prints, messages included."""
    profile = page.parent / "profile"
    command = [str(CHROMIUM), *QUIET, f"--user-data-dir={profile}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + "\n<!-- messages -->\n" + done.stderr


def visit(page: Path) -> Visit:
    """Open the page with a record of its network requests."""
    log = page.parent / "network.json"
    dom, messages = browse(page, "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom").split(
        "\n<!-- messages -->\n"
    )
    events = json.loads(log.read_text())["events"]
    sent = [event["params"] for event in events if "network_isolation_key" in event.get("params", {})]
    asked = {params["url"] for params in sent if params["network_isolation_key"].startswith("file:")}
    return Visit(dom, messages, {url for url in asked if not url.startswith("file:")})


@pytest.fixture
def hostile_page(tmp_path: Path) -> Path:
    chosen = models()
    chosen[2].name = NASTY
    return build(write_run(tmp_path / "run", chosen, (NASTY, "positive"), NASTY))


def test_the_page_renders_without_complaints_or_requests(hostile_page: Path) -> None:
    seen = visit(hostile_page)
    assert "What these numbers do not say" in seen.dom
    assert seen.dom.count("<svg") >= 8
    assert "CONSOLE" not in seen.messages
    assert seen.requests == set()
    assert "<script" not in seen.dom


def test_the_record_of_complaints_and_requests_would_show_them(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<p>x</p><img src='http://127.0.0.1:9/x.png'><script>console.error('seen')</script>")
    seen = visit(page)
    assert "seen" in seen.messages
    assert "http://127.0.0.1:9/x.png" in seen.requests


MEASURE = """<!doctype html>
<iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe><output></output>
<script>
onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const boxes = [...page.querySelectorAll("svg")].map(svg =>
    [...svg.querySelectorAll(".point-name")].map(text => text.getBoundingClientRect().toJSON()));
  document.querySelector("output").textContent =
    JSON.stringify({{width: page.documentElement.scrollWidth, names: boxes.filter(each => each.length)}});
}};
</script>"""


def measure(page: Path, width: int) -> dict[str, Any]:
    """Width that the page takes in a window of `width` pixels, and the boxes of the names in each scatter."""
    frame = page.parent / "frame.html"
    frame.write_text(MEASURE.format(page=page.as_uri(), width=width))
    dom = browse(frame, "--allow-file-access-from-files", "--window-size=1600,1000", "--dump-dom")
    return dict(json.loads(dom.partition("<output>")[2].partition("</output>")[0]))


@pytest.mark.parametrize("width", [400, pytest.param(1300, marks=pytest.mark.slow)])
def test_the_page_fits_its_window_and_names_keep_apart(hostile_page: Path, width: int) -> None:
    found = measure(hostile_page, width)
    assert found["width"] <= width
    assert [len(names) for names in found["names"]] == [5, 5]
    for names in found["names"]:
        for one, two in combinations(names, 2):
            beside = one["right"] <= two["left"] or two["right"] <= one["left"]
            assert beside or one["bottom"] <= two["top"] + 1 or two["bottom"] <= one["top"] + 1
