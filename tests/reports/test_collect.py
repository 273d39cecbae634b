from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_run import ROWS

from assay.core.errors import InputError
from reports.collect import Run, collect


def test_reads_every_variant_with_its_results(run: Run) -> None:
    assert [variant.name for variant in run.variants][:3] == ["teacher", "teacher_onnx", "int8"]
    int8 = run.variant("int8")
    assert int8 is not None
    assert int8.metrics["accuracy"].value == pytest.approx(1 - 19 / ROWS)
    assert int8.measurement["size_bytes"] == 22_900_000
    assert [step.step for step in run.added_steps(int8)] == ["export_onnx", "quantize"]
    assert {probe.probe for probe in int8.probes} >= {"linear", "attention", "typos", "fidelity", "patience"}
    assert int8.predictions is not None
    assert len(int8.predictions) == ROWS


def test_knows_both_baselines(run: Run) -> None:
    assert run.teacher is run.variant("teacher")
    assert run.teacher_onnx is run.variant("teacher_onnx")


def test_a_variant_that_is_only_exported_stands_in_for_the_onnx_baseline(folder: Path) -> None:
    data = json.loads((folder / "run.json").read_text())
    data["baselines"] = ["teacher"]
    data["variants"][1]["role"] = "variant"
    (folder / "run.json").write_text(json.dumps(data))
    read = collect(folder)
    assert read.teacher_onnx is read.variant("teacher_onnx")


def test_a_failed_variant_keeps_its_reason_and_has_no_results(run: Run) -> None:
    broken = run.variant("broken")
    assert broken is not None
    assert (broken.state, broken.metrics, broken.measurement, broken.predictions) == ("failed", {}, {}, None)
    assert broken.error == "prune_layers.keep: 9 is more than the 3 layers of the model"


def test_an_unfinished_run_without_measure_and_data_reads(folder: Path) -> None:
    (folder / "measure.json").unlink()
    (folder / "data" / "test.parquet").unlink()
    (folder / "data" / "data.json").unlink()
    read = collect(folder)
    assert read.test is None
    assert all(variant.measurement == {} for variant in read.variants)


def test_an_evaluation_of_other_weights_is_left_out(folder: Path) -> None:
    path = folder / "results" / "int8" / "evaluation.json"
    path.write_text(path.read_text().replace('"key-int8"', '"key-of-before"'))
    int8, fresh = (collect(folder).variant(name) for name in ("int8", "half_depth"))
    assert int8 is not None
    assert fresh is not None
    assert (int8.stale, int8.metrics, int8.predictions) == (True, {}, None)
    assert (fresh.stale, bool(fresh.metrics)) == (False, True)


def test_fields_of_a_newer_version_are_no_error(folder: Path) -> None:
    path = folder / "results" / "int8" / "probes" / "typos.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"new_field": 1}))
    assert collect(folder).variant("int8") is not None


def test_no_folder_and_no_run_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent: no such run folder"):
        collect(tmp_path / "absent")
    with pytest.raises(InputError, match=r"no run\.json in it; is it a run folder\?"):
        collect(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"name": "x"', "cannot be read as JSON"),
        ("[]", "holds a JSON list where an object is expected"),
        ("{}", "not the record of a run"),
        ('{"name": NaN}', "NaN is not JSON"),
        ("\0\0", "cannot be read as JSON"),
    ],
)
def test_a_damaged_run_file_is_named_in_one_line(folder: Path, content: str, reason: str) -> None:
    (folder / "run.json").write_text(content)
    with pytest.raises(InputError) as caught:
        collect(folder)
    assert str(folder / "run.json") in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_result_and_table_are_named(folder: Path) -> None:
    table = folder / "results" / "int8" / "predictions.parquet"
    table.write_bytes(table.read_bytes()[:100])
    int8 = collect(folder).variant("int8")
    assert int8 is not None
    with pytest.raises(InputError, match=r"predictions\.parquet: cannot be read as parquet"):
        _ = int8.predictions
    (folder / "measure.json").write_text("{")
    with pytest.raises(InputError, match=r"measure\.json: cannot be read as JSON"):
        collect(folder)
