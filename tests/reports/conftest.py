"""The made-up run folder as a fixture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_run import write_run

from reports.collect import Run, collect


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with two baselines, three finished variants and a failed one."""
    return write_run(tmp_path / "run")


@pytest.fixture
def run(folder: Path) -> Run:
    """The same, read."""
    return collect(folder)


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[..., Run]:
    """Writes a run of other models or settings and reads it."""
    return lambda given=None, **top: collect(write_run(tmp_path / "other", given, **top))
