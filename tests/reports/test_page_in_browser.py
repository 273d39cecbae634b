"""The page in a real browser without a head: it renders, complains of nothing and asks the network for nothing."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from made_up_run import NASTY, models, write_run

from reports.build import build

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars")  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine to open the page with")


@dataclass
class Visit:
    """What the browser wrote: the page's DOM, its messages, and every address it asked for."""

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
    asked = {event["params"]["url"] for event in events if "url" in event.get("params", {})}
    return Visit(dom, messages, {url for url in asked if url.startswith(("http", "ws", "ftp"))})


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


@pytest.mark.parametrize("width", [420, 1300])
def test_the_page_is_no_wider_than_its_window(hostile_page: Path, width: int) -> None:
    shot = hostile_page.parent / "shot.png"
    browse(hostile_page, f"--window-size={width},900", f"--screenshot={shot}")
    size = struct.unpack(">II", shot.read_bytes()[16:24])
    assert size == (width, 900)
    assert len(shot.read_bytes()) > 10_000  # an empty page of this size packs to far less
