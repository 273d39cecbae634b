"""`assay analyse sensitivity` on a small run: figures of the rows asked for, original numbers, the right weights."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_jobs import carry_out, job_data, planted_rows, with_labels
from tiny_models import write_tiny
from typer.testing import CliRunner

from assay import cli
from assay.core.artifact import Artifact, open_finished, open_source
from assay.core.data.prepare import JobData
from assay.core.errors import InputError
from assay.core.evaluate import evaluate
from assay.core.manifest import write_json
from assay.core.model.predict import open_predictor
from assay.run.saved_data import read_split, save_data
from assay.run.sensitivity import analyse

CHAIN = [("prune_layers", {"layers": [0, 2]}), ("prune_heads", {"remove": {2: [1]}})]
EXPORT = ("export_onnx", {})


def record(data: JobData, variants: dict[str, list[Path]], source: Path) -> dict[str, Any]:
    """run.json as far as it is read."""
    each = [
        {
            "variant": name,
            "path": f"store/{folders[-1].name}" if folders else str(source),
            "error": None,
            "steps": [{"step": "any", "path": f"store/{folder.name}", "state": "done"} for folder in folders],
        }
        for name, folders in variants.items()
    ]
    return {"name": "small", "task": data.task, "job": {"data": {"max_length": 32}}, "variants": each}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose teacher is the source itself; `cut` has layers 0 and 2, without head 1 of layer 2, and `graph` is it
    in ONNX. Labels are noise, so that parts change the accuracy."""
    folder, model = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("model")
    write_tiny(model, layers=3, neurons=10)
    source = open_source(model, "text-classification")
    test = planted_rows(30, seed=2, shuffled=True)
    data = job_data(test=test)
    made = [carry_out(folder / "store", source, CHAIN[:count]).path for count in (1, 2)]
    graph = carry_out(folder / "store", source, [*CHAIN, EXPORT]).path
    save_data(folder / "data", data)
    write_json(folder / "run.json", record(data, {"teacher": [], "cut": made, "graph": [*made, graph]}, model))
    return folder


def looked_at(run: Path, variant: str, **options: Any) -> dict[str, Any]:
    settings = {"split": "test", "rows": None, "groups": 2} | options
    path = analyse(run, variant, **settings, progress=lambda done, total: None)
    return json.loads(path.read_text())


def test_parts_have_original_numbers(run: Path) -> None:
    found = looked_at(run, "cut")
    named = [(row["part"], row["layer"], row["number"], row["neurons"]) for row in found["removed"]]
    assert named == [
        *(("head", 0, head, None) for head in range(4)),
        *(("head", 2, head, None) for head in (0, 2, 3)),
        *(("layer", layer, None, None) for layer in (0, 2)),
        *(("neurons", layer, group, ["0-4", "5-9"][group]) for layer in (0, 2) for group in range(2)),
    ]


def test_figures_are_those_of_the_model_that_is_really_cut(run: Path, tmp_path: Path) -> None:
    found = looked_at(run, "cut")
    data = job_data(test=read_split(run / "data", "test"))
    whole = open_finished(run / "store" / found["weights"])

    def accuracy(model: Artifact) -> float | None:
        return evaluate(open_predictor(model, 32).logits(data.test.texts), data.test, data.task, data.labels)[0].value

    assert found["whole"]["accuracy"] == accuracy(whole)
    for part, step in [
        (("head", 2, 3), ("prune_heads", {"remove": {2: [3]}})),
        (("layer", 0, None), ("prune_layers", {"layers": [2]})),
    ]:
        (row,) = (row for row in found["removed"] if (row["part"], row["layer"], row["number"]) == part)
        assert row["accuracy"] == accuracy(carry_out(tmp_path, whole, [step]))
        assert row["accuracy_change"] == pytest.approx(row["accuracy"] - found["whole"]["accuracy"])
        assert row["loss_change"] == pytest.approx(row["loss"] - found["whole"]["loss"])
        assert row["loss"] != found["whole"]["loss"]


def test_a_variant_in_onnx_is_looked_at_before_export_and_a_folder_by_its_name(run: Path) -> None:
    cut, graph = looked_at(run, "cut"), looked_at(run, "graph")
    assert graph["weights"] == cut["weights"]
    assert graph["removed"] == cut["removed"]
    folder = looked_at(run, cut["weights"])
    assert (folder["variant"], folder["removed"]) == (cut["weights"], cut["removed"])
    assert len(looked_at(run, "teacher")["removed"]) == 3 * 4 + 3 + 3 * 2


@pytest.mark.parametrize(
    ("options", "rows", "parts"), [({"rows": 7}, 7, 13), ({"groups": 0}, 30, 9), ({"split": "train"}, 48, 13)]
)
def test_rows_and_groups_are_those_asked_for(options: dict[str, Any], rows: int, parts: int, run: Path) -> None:
    found = looked_at(run, "cut", **options)
    assert (found["rows"], len(found["removed"])) == (rows, parts)
    assert found["split"] == options.get("split", "test")


@pytest.mark.parametrize(
    ("variant", "options", "message"),
    [
        ("cat", {}, "no variant or finished folder 'cat'; did you mean 'cut'?"),
        ("cut", {"split": "dev"}, "split 'dev' is not one of train, validation, test"),
    ],
)
def test_what_is_not_there_is_one_line(variant: str, options: dict[str, Any], message: str, run: Path) -> None:
    with pytest.raises(InputError) as caught:
        looked_at(run, variant, **options)
    assert message in str(caught.value)


def test_a_graph_alone_holds_no_weights(run: Path) -> None:
    (folder,) = (path.parent for path in (run / "store").glob("*/model.onnx"))
    with pytest.raises(InputError, match="an onnx folder holds no torch weights"):
        looked_at(run, folder.name)


def test_rows_without_a_label_are_left_out(run: Path, tmp_path: Path) -> None:
    (tmp_path / "store").symlink_to(run / "store")
    (tmp_path / "run.json").write_text((run / "run.json").read_text())
    data = job_data()
    hidden = with_labels(data.test, np.where(np.arange(len(data.test)) < 5, -1, data.test.labels))
    save_data(tmp_path / "data", job_data(test=hidden))
    assert looked_at(tmp_path, "cut")["rows"] == len(data.test) - 5
    save_data(tmp_path / "data", job_data(test=with_labels(hidden, np.full(len(hidden), -1))))
    with pytest.raises(InputError, match="no rows with a known label"):
        looked_at(tmp_path, "cut")


@pytest.mark.parametrize(
    ("task", "labels", "accuracy"),
    [("text-regression", (), False), ("multi-label-classification", ("a", "b"), True)],
)
def test_other_tasks(
    task: Any, labels: tuple[str, ...], accuracy: bool, tiny_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    source = tiny_artifact(task=task, labels=labels or ("score",), layers=2)
    rows = planted_rows(10)
    values = rows.labels * 0.5 if not labels else np.stack([rows.labels, 1 - rows.labels], axis=1)
    data = job_data(with_labels(rows, values), with_labels(rows, values), task, labels)
    save_data(tmp_path / "data", data)
    write_json(tmp_path / "run.json", record(data, {"teacher": []}, source.path))
    found = looked_at(tmp_path, "teacher")
    expected = {
        metric.name: metric.value
        for metric in evaluate(open_predictor(source, 32).logits(rows.texts), data.test, task, labels)
    }
    assert found["whole"]["accuracy"] == (expected["exact_match"] if accuracy else None)
    if not accuracy:
        assert found["whole"]["loss"] == pytest.approx(expected["mse"], rel=1e-5)
    assert len({row["loss"] for row in found["removed"]}) == len(found["removed"])


def test_saved_rows_are_read_as_they_were(run: Path) -> None:
    data, found = job_data(), read_split(run / "data", "train")
    assert (found.texts, found.rows, found.labels.tolist()) == (
        data.train.texts,
        data.train.rows,
        data.train.labels.tolist(),
    )


def test_the_command_prints_one_object_a_part(run: Path) -> None:
    command = ["analyse", "sensitivity", str(run), "cut", "--split", "test", "--groups", "2"]
    as_json, as_csv, as_table = (CliRunner().invoke(cli.app, [*command, *more]) for more in (["--json"], ["--csv"], []))
    found = looked_at(run, "cut")
    rows = json.loads(as_json.stdout)
    assert rows[0]["part"] == "none"
    assert rows[0]["accuracy"] == found["whole"]["accuracy"]
    assert rows[1:] == found["removed"]
    assert [row["loss"] for row in csv.DictReader(io.StringIO(as_csv.stdout))] == [str(row["loss"]) for row in rows]
    assert "layer 2, head 3" in as_table.stdout
    assert str(run / "results" / "cut" / "sensitivity.html") in as_table.stdout.replace("\n", "")
