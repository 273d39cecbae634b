"""One whole job on a tiny model, looked at from all sides, then started again with something changed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from small_jobs import figures, read, run, stamps, write_job
from tiny_models import write_tiny

from assay.core.artifact import open_source
from assay.core.config.load import load_job
from assay.core.errors import AssayError
from assay.core.manifest import is_done
from assay.core.metric import Metric
from assay.core.model.load import load_source, load_tokenizer, save_module
from assay.run.job import Outcome, run_job
from probe.probe import Findings, Probe, ProbeContext
from reports.collect import collect
from reports.rows import rows

VARIANTS: dict[str, list[Any]] = {
    "slim": [
        {"prune_heads": {"fraction": 0.25}},
        {"distil": {"epochs": 1, "batch_size": 8}},
        "export_onnx",
        "quantize",
    ],
    "onnx": ["export_onnx"],
    "half": [{"prune_layers": {"keep": 2}}],
}
PROBES: list[Any] = ["fidelity", {"linear": {"tasks": ["label"], "samples": 24, "test_samples": 16}}]
TEACHER = [{"finetune": {"epochs": 12, "batch_size": 8, "learning_rate": 3e-3}}]
NAMES = ("teacher", "slim", "onnx", "half")


@dataclass(frozen=True)
class Made:
    """A job that ran from start to end."""

    config: Path
    folder: Path
    outcome: Outcome


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    home = tmp_path_factory.mktemp("job")
    write_tiny(home / "model")
    config = write_job(home / "films.yaml", home / "model", teacher=TEACHER, variants=VARIANTS, probes=PROBES)
    return Made(config, home / "run", run(config, home / "run"))


@pytest.fixture
def again(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Start the job anew in a copy of its folder, `tmp_path / "run"`, without measuring."""
    shutil.copytree(made.folder, tmp_path / "run")
    monkeypatch.setattr("assay.core.measure.side_by_side.measure", figures)
    return lambda *settings, **options: run(made.config, tmp_path / "run", *settings, **options)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*args: Any, **options: Any) -> None:
        raise AssertionError("training where nothing is to be trained")

    monkeypatch.setattr("assay.core.train.train", train)


def variants(folder: Path) -> dict[str, Any]:
    return {item["variant"]: item for item in read(folder / "run.json")["variants"]}


def test_all_went_well(made: Made) -> None:
    assert made.outcome.failures == []
    assert made.outcome.report == made.folder / "report.html"


def test_the_record_says_what_the_job_was_and_that_it_ended(made: Made) -> None:
    record = read(made.folder / "run.json")
    assert list(record) == [
        "name", "config", "job", "seed", "task", "labels", "started", "finished", "tiny", "machine", "versions",
        "baselines", "variants",
    ]  # fmt: skip
    assert (record["name"], record["config"], record["seed"]) == ("films", str(made.config), 3)
    assert (record["task"], record["labels"], record["tiny"]) == ("text-classification", ["neg", "pos"], False)
    assert record["job"] == load_job(made.config).resolved()
    assert datetime.fromisoformat(record["finished"]) >= datetime.fromisoformat(record["started"])
    assert {"cpu", "cores", "flags", "memory_gib", "platform"} <= record["machine"].keys()
    assert {"torch", "transformers", "onnxruntime"} <= record["versions"].keys()


def test_the_record_tells_of_each_variant_and_step(made: Made) -> None:
    found = variants(made.folder)
    assert tuple(found) == NAMES
    for item in found.values():
        assert (item["state"], item["error"]) == ("done", None)
        assert item["artifact_key"] == item["steps"][-1]["key"]
        assert item["path"] == item["steps"][-1]["path"]
        for step in item["steps"]:
            assert list(step) == ["step", "settings", "key", "path", "seconds", "facts", "state", "error"]
            assert is_done(made.folder / step["path"], step["key"])
            assert step["state"] == "done"
            assert step["seconds"] > 0
    slim = found["slim"]
    assert [step["step"] for step in slim["steps"]] == [
        "finetune", "prune_heads", "distil", "export_onnx", "quantize",
    ]  # fmt: skip
    assert slim["steps"][2]["settings"]["temperature"] == 2.0, "defaults are written out"
    assert sum(map(len, slim["steps"][1]["facts"]["removed"].values())) == 4, "a quarter of 4 layers of 4 heads"
    assert (slim["format"], found["half"]["format"]) == ("onnx", "torch")


def test_a_variant_that_is_the_baseline_stays_a_variant_and_is_listed_as_baseline(made: Made) -> None:
    assert read(made.folder / "run.json")["baselines"] == ["teacher", "onnx"]
    assert {name: item["role"] for name, item in variants(made.folder).items()} == {
        "teacher": "baseline", "slim": "variant", "onnx": "variant", "half": "variant",
    }  # fmt: skip
    collected = collect(made.folder)
    assert collected.teacher is not None
    assert collected.teacher.name == "teacher"
    assert collected.teacher_onnx is not None
    assert collected.teacher_onnx.name == "onnx"


def test_every_variant_is_evaluated_on_the_test_rows_in_their_order(made: Made) -> None:
    test = pd.read_parquet(made.folder / "data" / "test.parquet")
    for name in NAMES:
        evaluation = read(made.folder / "results" / name / "evaluation.json")
        assert list(evaluation) == ["key", "variant", "artifact_key", "layout", "metrics"]
        assert evaluation["artifact_key"] == variants(made.folder)[name]["artifact_key"]
        predictions = pd.read_parquet(made.folder / "results" / name / "predictions.parquet")
        assert list(predictions) == ["row", "label", "logit_0", "logit_1"]
        assert predictions["row"].tolist() == test["row"].tolist()
        right = (predictions[["logit_0", "logit_1"]].to_numpy().argmax(1) == test["label"]).mean()
        metrics = {metric["name"]: metric for metric in evaluation["metrics"]}
        assert metrics["accuracy"]["value"] == pytest.approx(right)
        assert ("label_loyalty" in metrics) == (name != "teacher")


def test_the_teacher_has_found_the_planted_word(made: Made) -> None:
    found = {row["variant"]: row["accuracy"] for row in rows(collect(made.folder))}
    assert found["teacher"] >= 0.9, "chance is 0.5"
    assert found["onnx"] == found["teacher"]


def test_the_rows_are_saved_with_their_split(made: Made) -> None:
    about = read(made.folder / "data" / "data.json")
    assert list(about) == ["fingerprint", "labels", "task", "notes"]
    sizes = {name: len(pd.read_parquet(made.folder / "data" / f"{name}.parquet")) for name in about["notes"]["rows"]}
    assert sizes == about["notes"]["rows"] == {"train": 48, "validation": 16, "test": 16}


def test_every_probe_ran_on_every_variant_and_says_on_what(made: Made) -> None:
    examined = {}
    for name in NAMES:
        for probe in ("fidelity", "linear"):
            found = read(made.folder / "results" / name / "probes" / f"{probe}.json")
            assert (found["probe"], found["variant"], found["failed"]) == (probe, name, None)
            assert found["metrics"] or found["skipped"]
            examined[name, probe] = found["examined"]
    assert examined["slim", "fidelity"] == "graph"
    assert examined["slim", "linear"] == "torch weights before export"
    assert examined["half", "linear"] == "torch weights"


def test_a_graph_shares_the_findings_about_the_weights_it_was_exported_from(made: Made) -> None:
    teacher, onnx = (read(made.folder / "results" / name / "probes" / "linear.json") for name in ("teacher", "onnx"))
    assert teacher["key"] == onnx["key"]
    assert teacher["seconds"] == onnx["seconds"]


def test_all_are_measured_baselines_first(made: Made) -> None:
    measured = read(made.folder / "measure.json")
    assert list(measured["variants"]) == ["teacher", "onnx", "slim", "half"]
    for found in measured["variants"].values():
        assert min(found["latency_ms_p50"], found["throughput_per_s"], found["parameters"]) > 0
        assert "cold_start_s" not in found, "the job asks for no starts"
    assert measured["settings"]["rounds"] == 2


def test_the_report_shows_every_variant(made: Made) -> None:
    page = made.outcome.report.read_text()
    assert all(name in page for name in NAMES)


def test_only_whole_work_is_left(made: Made) -> None:
    steps = [step for item in variants(made.folder).values() for step in item["steps"]]
    kept = {path.relative_to(made.folder).as_posix() for path in (made.folder / "store").iterdir()}
    assert kept == {step["path"] for step in steps}
    assert list((made.folder / "scratch").iterdir()) == []
    assert list(made.folder.rglob(".*")) == []


@pytest.mark.usefixtures("no_training")
def test_a_second_run_redoes_nothing(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("opened, though all is known")

    for place in ("assay.run.opened.open_predictor", "assay.core.measure.side_by_side.measure"):
        monkeypatch.setattr(place, refuse)
    shutil.copytree(made.folder, tmp_path / "run")
    before = stamps(tmp_path / "run")
    assert run(made.config, tmp_path / "run").failures == []
    after = stamps(tmp_path / "run")
    assert {name for name in before if after[name] != before[name]} == {"run.json", "run.lock", "report.html"}
    assert after.keys() == before.keys()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 7 + 4 + 1, "different steps, variants, the measurement"
    assert all(line.endswith(": done before") for line in lines)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("keep", [0.6, 0.0])
def test_a_cut_graph_in_a_finished_variant_is_noticed_and_made_again(
    again: Callable[..., Outcome], tmp_path: Path, keep: float
) -> None:
    graph = tmp_path / "run" / variants(tmp_path / "run")["slim"]["path"] / "model.onnx"
    whole, before = graph.read_bytes(), stamps(tmp_path / "run" / "store")
    graph.write_bytes(whole[: int(len(whole) * keep)])
    assert again().failures == []
    assert graph.read_bytes() == whole
    changed = {name for name, stamp in stamps(tmp_path / "run" / "store").items() if before.get(name) != stamp}
    assert {name.split("/")[0] for name in changed} == {graph.parent.name}


def test_a_changed_setting_redoes_its_step_and_what_follows(again: Callable[..., Outcome], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    old, before, results = variants(folder), stamps(folder / "store"), stamps(folder / "results")
    assert again("variants.slim[1].distil.temperature=4").failures == []
    new = variants(folder)
    assert [a["key"] == b["key"] for a, b in zip(old["slim"]["steps"], new["slim"]["steps"], strict=True)] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert all(stamps(folder / "store")[name] == stamp for name, stamp in before.items())
    rewritten = {name for name, stamp in stamps(folder / "results").items() if results.get(name) != stamp}
    assert {name.split("/")[0] for name in rewritten} == {"slim"}
    assert read(folder / "results" / "slim" / "evaluation.json")["artifact_key"] == new["slim"]["artifact_key"]


@pytest.mark.usefixtures("no_training")
def test_a_changed_probe_runs_again_alone(again: Callable[..., Outcome], tmp_path: Path) -> None:
    before = stamps(tmp_path / "run" / "results")
    assert again("probes[0].fidelity.layout_samples=4").failures == []
    after = stamps(tmp_path / "run" / "results")
    assert {name.split("/", 1)[1] for name in after if after[name] != before[name]} == {"probes/fidelity.json"}


@pytest.mark.usefixtures("no_training")
def test_what_the_job_no_longer_asks_for_is_not_reported(
    again: Callable[..., Outcome], made: Made, tmp_path: Path
) -> None:
    kept = {name: chain for name, chain in VARIANTS.items() if name != "half"}
    shutil.copy(made.config.with_suffix(".csv"), tmp_path / "films.csv")
    config = write_job(
        tmp_path / "films.yaml", made.config.parent / "model", teacher=TEACHER, variants=kept, probes=PROBES[:1]
    )
    assert run(config, tmp_path / "run").failures == []
    found = collect(tmp_path / "run")
    assert [variant.name for variant in found.variants] == ["teacher", "slim", "onnx"]
    assert {probe.probe for variant in found.variants for probe in variant.probes} == {"fidelity"}
    assert (tmp_path / "run" / "results" / "half" / "evaluation.json").is_file()


@pytest.mark.slow
def test_only_makes_one_variant_and_the_baselines_and_keeps_the_figures_of_the_others(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.core.measure.side_by_side.measure", figures)
    brief = ("teacher[0].finetune.epochs=1", "variants.slim=[{prune_layers: {keep: 1}}]", "probes=[]")
    folder = tmp_path / "run"
    run(made.config, folder, *brief, only="half")
    states = {name: item["state"] for name, item in variants(folder).items()}
    assert states == {"teacher": "done", "slim": "waiting", "onnx": "done", "half": "done"}
    assert list(read(folder / "measure.json")["variants"]) == ["teacher", "onnx", "half"]
    assert not (folder / "results" / "slim").exists()
    run(made.config, folder, *brief)
    measured = stamps(folder)["measure.json"]
    assert list(read(folder / "measure.json")["variants"]) == ["teacher", "onnx", "slim", "half"]
    run(made.config, folder, *brief, only="onnx")
    assert stamps(folder)["measure.json"] == measured
    assert {item["state"] for item in variants(folder).values()} == {"done"}


def test_one_failed_variant_does_not_stop_the_others(
    again: Callable[..., Outcome], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    outcome = again("variants.half[0]={export_onnx: {tolerance: 1e-12}}")
    assert len(outcome.failures) == 1
    assert re.match(r"half: the graph differs from finetune-.* \(traceback: ", outcome.failures[0])
    found = variants(folder)
    assert {name: item["state"] for name, item in found.items()} == {
        "teacher": "done", "slim": "done", "onnx": "done", "half": "failed",
    }  # fmt: skip
    assert found["half"]["error"].startswith("the graph differs from finetune-")
    assert found["half"]["steps"][1]["state"] == "failed"
    assert [path.name for path in (folder / found["half"]["path"]).iterdir()] == ["error.json"]
    assert list(read(folder / "measure.json")["variants"]) == ["teacher", "onnx", "slim"]
    assert read(folder / "run.json")["finished"] is not None
    assert not (folder / "results" / "half").exists(), "what was found of the variant's earlier weights is gone"
    assert "Traceback" not in capsys.readouterr().err
    assert again().failures == []
    assert {item["state"] for item in variants(folder).values()} == {"done"}


def test_a_teacher_that_fails_is_blamed_for_all(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*args: Any, **options: Any) -> None:
        raise AssayError("training diverged")

    monkeypatch.setattr("assay.core.train.train", diverge)
    folder = tmp_path / "run"
    outcome = run(made.config, folder)
    assert len(outcome.failures) == 1
    assert outcome.failures[0].startswith("teacher: training diverged (traceback: ")
    found = variants(folder)
    assert {item["state"] for item in found.values()} == {"failed"}
    assert found["half"]["error"] == "the teacher failed: training diverged"
    assert not (folder / "results").exists()
    assert not (folder / "measure.json").exists()
    assert outcome.report.is_file()


def test_an_interrupted_run_does_not_claim_to_have_finished(
    again: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("assay.core.train.train", interrupt)
    assert read(tmp_path / "run" / "run.json")["finished"] is not None
    with pytest.raises(KeyboardInterrupt):
        again("variants.slim[1].distil.temperature=4")
    record = read(tmp_path / "run" / "run.json")
    assert record["finished"] is None
    steps = next(item for item in record["variants"] if item["variant"] == "slim")["steps"]
    assert [step["state"] for step in steps] == ["done", "done", "waiting", "waiting", "waiting"]


class Moody(Probe):
    """Fails on ONNX variants as long as it is in the mood."""

    bad: ClassVar[bool] = True
    runs: ClassVar[list[str]] = []

    def run(self, model: Any, ctx: ProbeContext) -> Findings:
        self.runs.append(model.artifact.format)
        if self.bad and model.artifact.format == "onnx":
            raise ZeroDivisionError("no rows")
        return Findings([Metric("mood", 1.0, "", True, 1, None, None)])


@pytest.mark.usefixtures("no_training", "again")
def test_a_failed_probe_is_noted_and_tried_again(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moody, "runs", [])
    job = replace(load_job(made.config), probes=(("moody", Moody()),))
    folder = tmp_path / "run"
    outcome = run_job(job, folder)
    path = folder / "results" / "onnx" / "probes" / "moody.json"
    assert f"onnx: probe moody: ZeroDivisionError: no rows (traceback: {path})" in outcome.failures
    assert len(outcome.failures) == 2
    found = read(path)
    assert (found["key"], found["failed"]) == (None, "ZeroDivisionError: no rows")
    assert any("in run" in line for line in found["traceback"])
    assert Moody.runs == ["torch", "onnx", "onnx", "torch"]
    monkeypatch.setattr(Moody, "bad", False)
    assert run_job(job, folder).failures == []
    assert Moody.runs == ["torch", "onnx", "onnx", "torch", "onnx", "onnx"]


class Reading(Probe):
    """Reads a file, and the states of the test rows from what all probes share."""

    file: Path
    runs: ClassVar[list[str]] = []
    held: ClassVar[list[int]] = []

    def inputs(self) -> list[Path]:
        return [self.file]

    def run(self, model: Any, ctx: ProbeContext) -> Findings:
        self.runs.append(self.file.read_text())
        states = ctx.states.of(ctx.teacher)
        self.held.append(len(states.files.held))
        list(states.states(ctx.data.test.texts))
        assert states.files.folder.is_dir()
        return Findings([Metric("read", 1.0, "", True, 1, None, None)])


@pytest.mark.usefixtures("no_training", "again")
def test_findings_go_with_the_content_of_the_files_a_probe_reads_and_states_with_the_run(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reading, "runs", [])
    monkeypatch.setattr(Reading, "held", [])
    file, folder = tmp_path / "file.txt", tmp_path / "run"
    job = replace(load_job(made.config), probes=(("reading", Reading(file=file)),))
    left_by_a_killed_run = folder / "scratch" / "states" / "old"
    left_by_a_killed_run.mkdir(parents=True)
    for content in ("one", "one", "two"):
        file.write_text(content)
        assert run_job(job, folder).failures == []
        assert not (folder / "scratch" / "states").exists()
    per_run = Reading.runs.count("one")
    assert Reading.runs == ["one"] * per_run + ["two"] * per_run
    assert len(set(Reading.held[1:per_run])) == 1  # the teacher's states are there for all after the first
    assert Reading.held[0] == 0 < Reading.held[1]


@pytest.mark.usefixtures("no_training")
def test_an_evaluation_that_fails_is_noted_and_the_others_go_on(
    again: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.rmtree(folder / "results")
    evaluate = "assay.run.examine.compare"
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, lambda *args: 1 / 0)
        outcome = again()
    path = folder / "results" / "half" / "error.json"
    assert f"half: evaluation: ZeroDivisionError: division by zero (traceback: {path})" in outcome.failures
    assert len(outcome.failures) == 3
    assert (folder / "results" / "teacher" / "evaluation.json").is_file()
    assert again().failures == []
    assert not path.exists()


def test_classes_are_matched_by_name_where_the_model_is_used_as_it_is(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trained teacher with its classes the other way round answers as before."""
    monkeypatch.setattr("assay.core.measure.side_by_side.measure", figures)
    finished = made.folder / variants(made.folder)["teacher"]["path"]
    turned = open_source(finished, "text-classification")
    save_module(load_source(turned, ("pos", "neg"), seed=0), tmp_path / "model", load_tokenizer(turned))
    assert open_source(tmp_path / "model", "text-classification").labels == ("pos", "neg")
    shutil.copy(made.config.with_suffix(".csv"), tmp_path / "films.csv")
    run(write_job(tmp_path / "films.yaml", tmp_path / "model", teacher=[]), tmp_path / "run")
    before, after = (
        pd.read_parquet(folder / "results" / "teacher" / "predictions.parquet")
        for folder in (made.folder, tmp_path / "run")
    )
    np.testing.assert_allclose(after[["logit_1", "logit_0"]], before[["logit_0", "logit_1"]], atol=1e-5)
    accuracy = {row["variant"]: row["accuracy"] for row in rows(collect(tmp_path / "run"))}
    assert accuracy["teacher"] == accuracy["onnx"] >= 0.9
