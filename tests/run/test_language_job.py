"""A whole job on a language model: pruned, distilled, cut, exported, quantized, looked at, and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_jobs import read, run, write_job
from tiny_models import write_tiny

from assay.core.artifact import LanguageTask
from assay.core.errors import InputError
from assay.core.model.anatomy import FAMILIES
from assay.run.sensitivity import analyse
from reports.collect import collect
from reports.rows import quality_name

TRAINING = {"epochs": 2, "batch_size": 8, "learning_rate": 3e-3}
VARIANTS: dict[str, list[Any]] = {
    "slim": [{"prune_heads": {"fraction": 0.25}}, {"distil": TRAINING}, "export_onnx", "quantize"],
    "cut": [{"prune_layers": {"keep": 1}}, "cut_vocab"],
}
PROBES: list[Any] = ["fidelity", {"linear": {"tasks": ["length"], "samples": 24, "test_samples": 16}}, "attention"]
CASES = [
    pytest.param(name, family.language_task, marks=[pytest.mark.job] if name == "bert" else [], id=name)
    for name, family in FAMILIES.items()
    if family.language_task
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "task"), CASES)
def test_a_language_model_goes_all_the_way(family: str, task: LanguageTask, tmp_path: Path) -> None:
    write_tiny(tmp_path / "model", family, layers=2, task=task)
    variants = {
        name: [step for step in chain if family != "albert" or "prune_layers" not in step]
        for name, chain in VARIANTS.items()
    }
    config = write_job(
        tmp_path / "films.yaml", tmp_path / "model", task=task, teacher=[{"finetune": TRAINING}], variants=variants,
        probes=PROBES, measure={"rounds": 2, "warmup": 0, "length": 16, "starts": 0},
    )  # fmt: skip
    outcome = run(config, tmp_path / "run")
    assert not outcome.failures
    found = collect(tmp_path / "run")
    assert quality_name(found) == "token_accuracy"
    slim, cut = found.variant("slim"), found.variant("cut")
    assert slim is not None
    assert cut is not None
    assert {"perplexity", "token_accuracy", "perplexity_ratio", "token_loyalty", "token_kl"} <= set(slim.metrics)
    assert "token_kl" not in cut.metrics  # its tokens are others than the teacher's
    assert (slim.paired, cut.paired) == (True, False)
    assert "its vocabulary is not the teacher" in outcome.report.read_text()
    answers = pd.read_parquet(tmp_path / "run" / "results" / "slim" / "predictions.parquet")
    sizes = ["bytes"] if task == "text-generation" else []
    assert list(answers) == ["row", "tokens", "nll", "right", *sizes, "teacher_nll", "same", "kl"]
    assert slim.metrics["perplexity"].n == answers["tokens"].sum()
    skipped = read(tmp_path / "run" / "results" / "slim" / "probes" / "fidelity.json")["skipped"]
    assert "fidelity compares labels" in skipped
    with pytest.raises(InputError, match="those of a language model do not fit"):
        analyse(tmp_path / "run", "teacher", "test", 8, 0, lambda done, total: None)
    assert "perplexity" in outcome.report.read_text().lower()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"task": "text-generation"}, "task: text-generation does not fit a bert model .* use task: fill-mask"),
        ({"data": {"label": "label"}}, r"data\.label: a fill-mask job has no labels, .* remove it"),
    ],
)
def test_what_does_not_fit_a_language_model_is_told_first(
    sections: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_tiny(tmp_path / "model", layers=1, task="fill-mask")
    config = write_job(tmp_path / "films.yaml", tmp_path / "model", **({"task": "fill-mask"} | sections))
    with pytest.raises(InputError, match=message):
        run(config, tmp_path / "run")
