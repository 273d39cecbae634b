"""A whole job on every family of texts: each step, the export and the probes, on a tiny model of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from by_family import OF_TEXTS
from small_jobs import read, run, write_job

from assay.core.model.anatomy import FAMILIES

DISTIL = {"distil": {"epochs": 1, "batch_size": 8, "hidden": 0.1}}


def variants(family: str) -> dict[str, list[Any]]:
    """Every way to make a model smaller, one after the other."""
    cross = [{"prune_heads": {"fraction": 0.25, "attention": "cross"}}] * (len(FAMILIES[family].stacks) > 1)
    return {
        "smaller": [
            {"prune_layers": {"keep": 1}},
            {"prune_heads": {"fraction": 0.5}},
            *cross,
            {"prune_ffn": {"fraction": 0.5, "score": "activation"}},
            DISTIL,
            {"cut_vocab": {}},
            "export_onnx",
            {"quantize": {"tolerance": 5.0}},
        ]
    }


@pytest.mark.slow  # eight seconds each; test_job has one on BERT
@pytest.mark.parametrize("family", OF_TEXTS)
def test_a_whole_job(family: str, tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    config = write_job(
        tmp_path / "job.yaml",
        tiny_folder(family, layers=4, headless=True),
        variants=variants(family),
        probes=["fidelity", "attention", {"linear": {"samples": 60}}, "similarity"],
    )
    assert run(config, tmp_path / "run").failures == []
    figures = read(tmp_path / "run" / "measure.json")["variants"]
    assert figures["smaller"]["parameters"] < 0.7 * figures["teacher"]["parameters"]
