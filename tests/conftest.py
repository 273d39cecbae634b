"""Tiny seeded models of every family, made in milliseconds: nothing is downloaded, nothing is shared between tests."""

from __future__ import annotations

import gc
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assay.core.artifact import Artifact, Task

# torch and transformers are imported where they are used: the process that hands out the tests starts without them.

gc.disable()  # until the first test: a tenth of the time of all the imports goes into looking for garbage there is not

os.fsync = lambda descriptor: None  # no test pulls the plug, and waiting for the disk is a tenth of the time

LONGEST = ("test_configs.py", "test_kill.py", "test_contracts.py", "test_job.py", "test_measure.py", "test_families.py",
           "test_cli.py", "test_image_job.py")  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest come first, so that no worker is left waiting for one of them at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_sessionfinish() -> None:
    """pytest looks through all objects for garbage, several times, before it ends: seconds over those of torch."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _of_a_module() -> None:
    """One thread; and what is imported is left out of garbage collections, of which each training makes a full one
    (half a second over all of torch and transformers)."""
    import torch

    torch.set_num_threads(1)
    gc.freeze()
    gc.enable()


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Callable[..., Path]:
    """Factory of pretrained model folders that Assay did not write; see `write_tiny` for the settings.

    `tiny_folder(family="roberta", labels=("a", "b", "c"), layers=2)` returns the folder; each call makes a new one."""
    from tiny_models import write_tiny

    count = iter(range(1000))

    def make(family: str = "bert", **settings: Any) -> Path:
        folder = tmp_path / f"{family}-{next(count)}"
        write_tiny(folder, family, **settings)
        return folder

    return make


@pytest.fixture
def tiny_artifact(tiny_folder: Callable[..., Path]) -> Callable[..., Artifact]:
    """Factory of artifacts: `tiny_folder` opened as a source, with the same settings."""
    from by_family import classes_of

    from assay.core.artifact import open_source

    def make(family: str = "bert", task: Task | None = None, **settings: Any) -> Artifact:
        task = task or classes_of(family)
        return open_source(tiny_folder(family, task=task, **settings), task)

    return make
