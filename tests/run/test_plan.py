from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_jobs import write_job

from assay.core.artifact import Artifact
from assay.core.config.job import Job
from assay.core.config.load import load_job
from assay.core.data.prepare import JobData, Split
from assay.core.manifest import key_of
from assay.run.plan import Plan, make_plan

SOURCE = Artifact(Path("model"), "source-key", "torch", "text-classification", "bert")
ROWS = Split(["a", "b"], np.array([0, 1]), [1, 2])
DATA = JobData(ROWS, ROWS, ROWS, ("neg", "pos"), "text-classification", "fingerprint")
SLIM: list[Any] = [{"prune_heads": {"fraction": 0.5}}, {"distil": {"epochs": 1}}, "export_onnx", "quantize"]
VARIANTS = {"onnx": ["export_onnx"], "int8": ["export_onnx", "quantize"], "slim": SLIM}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return load_job(write_job(tmp_path / "job.yaml", tmp_path, variants=VARIANTS))


def changed(job: Job, *settings: str) -> Job:
    return load_job(job.path, settings)


def plan(job: Job, source: Artifact = SOURCE, data: JobData = DATA) -> Plan:
    return make_plan(job, source, data, Path("run/store"))


def keys(found: Plan, variant: str) -> list[str]:
    return [node.key for node in found.chains[variant]]


def test_chains_start_with_the_teachers_and_share_what_they_have_in_common(job: Job) -> None:
    chains = plan(job).chains
    assert [node.name for node in chains["slim"]] == ["finetune", "prune_heads", "distil", "export_onnx", "quantize"]
    assert chains["teacher"] == chains["slim"][:1]
    assert chains["onnx"] == chains["int8"][:2]
    assert chains["slim"][3] != chains["int8"][1], "the same step after other work is other work"
    assert chains["int8"][2].folder == Path("run/store") / f"quantize-{chains['int8'][2].key[:12]}"


@pytest.mark.parametrize(
    ("setting", "first_changed"),
    [
        ("teacher[0].finetune.epochs=3", 0),
        ("variants.slim[0].prune_heads.fraction=0.25", 1),
        ("variants.slim[1].distil.temperature=4", 2),
        ("variants.slim[2].export_onnx.opset=17", 3),
        ("variants.slim[3].quantize.per_channel=false", 4),
    ],
)
def test_a_changed_setting_changes_its_step_and_what_follows_and_nothing_before(
    job: Job, setting: str, first_changed: int
) -> None:
    before, after = keys(plan(job), "slim"), keys(plan(changed(job, setting)), "slim")
    assert before[:first_changed] == after[:first_changed]
    assert not set(before[first_changed:]) & set(after[first_changed:])


def test_a_changed_variant_leaves_the_others_alone(job: Job) -> None:
    before, after = plan(job), plan(changed(job, "variants.slim[0].prune_heads.fraction=0.25"))
    assert before.chains["int8"] == after.chains["int8"]


def test_what_stands_in_a_file_that_a_step_reads_is_part_of_its_key(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one text")
    cut: list[Any] = ["export_onnx"], [{"cut_vocab": {"files": [str(lines)]}}, "export_onnx"]
    job = load_job(write_job(tmp_path / "job.yaml", tmp_path, variants=dict(zip(("plain", "cut"), cut, strict=True))))
    before, again = plan(job), plan(job)
    lines.write_text("another text")
    after = plan(job)
    assert keys(before, "cut") == keys(again, "cut")
    assert keys(before, "cut")[0] == keys(after, "cut")[0]
    assert not set(keys(before, "cut")[1:]) & set(keys(after, "cut")[1:])
    assert keys(before, "plain") == keys(after, "plain")


def test_writing_a_default_out_changes_nothing(job: Job) -> None:
    assert keys(plan(job), "slim") == keys(plan(changed(job, "variants.slim[1].distil.temperature=2.0")), "slim")


@pytest.mark.parametrize("what", ["seed", "data", "source"])
def test_seed_data_and_source_are_part_of_every_key(job: Job, what: str) -> None:
    others = {
        "seed": lambda: plan(changed(job, "seed=4")),
        "data": lambda: plan(job, data=replace(DATA, fingerprint="other")),
        "source": lambda: plan(job, source=replace(SOURCE, key="other")),
    }
    assert not set(keys(plan(job), "slim")) & set(keys(others[what](), "slim"))


def test_the_teachers_key_counts_where_a_step_learns_from_it_and_only_there(job: Job) -> None:
    full, heads, distil, export, _ = plan(job).chains["slim"]

    def key(parent: str, name: str, step: Any, teacher: str | None) -> str:
        return key_of(parent, name, step.model_dump(mode="json"), step.version, job.seed, "fingerprint", teacher)

    assert heads.key == key(full.key, "prune_heads", heads.step, None)
    assert distil.key == key(heads.key, "distil", distil.step, full.key)
    assert export.key == key(distil.key, "export_onnx", export.step, None)


def test_the_onnx_baseline_is_left_out_where_a_variant_is_exactly_that(job: Job) -> None:
    found = plan(job)
    assert found.baselines == ("teacher", "onnx")
    assert "teacher_onnx" not in found.chains
    assert found.baselines_first == ["teacher", "onnx", "int8", "slim"]


def test_the_onnx_baseline_is_there_where_no_variant_is_exactly_that(job: Job) -> None:
    found = plan(changed(job, "variants.onnx[0].export_onnx.opset=17"))
    assert found.baselines == ("teacher", "teacher_onnx")
    assert [node.name for node in found.chains["teacher_onnx"]] == ["finetune", "export_onnx"]
    assert found.baselines_first == ["teacher", "teacher_onnx", "onnx", "int8", "slim"]


def test_baselines_come_first_wherever_the_config_has_them(tmp_path: Path) -> None:
    variants = {"int8": ["export_onnx", "quantize"], "plain": ["export_onnx"]}
    found = plan(load_job(write_job(tmp_path / "job.yaml", tmp_path, variants=variants)))
    assert found.baselines_first == ["teacher", "plain", "int8"]
    assert list(found.chains) == ["teacher", "int8", "plain"]


def test_without_teacher_steps_the_model_as_given_is_the_teacher(tmp_path: Path) -> None:
    found = plan(load_job(write_job(tmp_path / "job.yaml", tmp_path, teacher=[])))
    assert found.chains["teacher"] == ()
    assert found.artifact_key("teacher") == "source-key"
    assert found.artifact_key("onnx") == found.chains["onnx"][-1].key
