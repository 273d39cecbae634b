"""Tiny seeded models of every family, made in milliseconds: nothing is downloaded, nothing is shared between tests."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import write_tiny

from assay.core.artifact import Artifact, Task, open_source

torch.set_num_threads(1)


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Callable[..., Path]:
    """Factory of pretrained model folders that Assay did not write; see `write_tiny` for the settings.

    `tiny_folder(family="roberta", labels=("a", "b", "c"), layers=2)` returns the folder; each call makes a new one."""
    count = iter(range(1000))

    def make(family: str = "bert", **settings: Any) -> Path:
        folder = tmp_path / f"{family}-{next(count)}"
        write_tiny(folder, family, **settings)
        return folder

    return make


@pytest.fixture
def tiny_artifact(tiny_folder: Callable[..., Path]) -> Callable[..., Artifact]:
    """Factory of artifacts: `tiny_folder` opened as a source, with the same settings."""

    def make(family: str = "bert", task: Task = "text-classification", **settings: Any) -> Artifact:
        return open_source(tiny_folder(family, task=task, **settings), task)

    return make
