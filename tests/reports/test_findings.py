from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from made_up_run import models

from reports.build import build
from reports.collect import Run, collect
from reports.findings import MOST_CELLS, attention, changed_words, linear_tasks, missing, probe_names, results, shared


def edit_probe(folder: Path, variant: str, probe: str, **changes: object) -> None:
    path = folder / "results" / variant / "probes" / f"{probe}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_equal_findings_are_shown_once_with_all_names(run: Run) -> None:
    first, second = shared(run, "linear")
    assert first.names == ("teacher", "teacher_onnx", "int8", "fewer_heads")
    assert first.before_export == ("teacher_onnx", "int8", "fewer_heads")
    assert second.names == ("half_depth",)


def test_linear_curves_keep_original_layer_numbers(run: Run) -> None:
    tasks = linear_tasks(run)
    assert list(tasks) == ["length", "bigram_shift"]
    full, half = tasks["length"]
    assert [row["layer"] for row in full.rows if row["pooling"] == "mean"] == [0, 1, 2, 3]
    assert [row["layer"] for row in half.rows if row["pooling"] == "mean"] == [0, 1, 3]
    assert "control" in full.chart
    assert "majority" in full.chart


def test_probes_of_words_are_drawn_by_layer_under_their_own_name(run: Run, folder: Path) -> None:
    (task, *_) = next(found.result.details["tasks"] for found in shared(run, "linear"))
    path = folder / "results" / "teacher" / "probes"
    found = json.loads((path / "linear.json").read_text())
    words = found | {"probe": "tokens", "details": {"tasks": [task | {"task": "upos", "of": "words"}]}}
    (path / "tokens.json").write_text(json.dumps(words))
    tasks = linear_tasks(collect(folder))
    assert list(tasks) == ["length", "bigram_shift", "tokens: upos"]
    assert [curve.found.names for curve in tasks["tokens: upos"]] == [("teacher",)]
    page = build(folder).read_text()
    assert "tokens: upos" in page
    assert "words to fit" in page


def test_attention_crosses_heads_that_are_not_there(run: Run) -> None:
    full, half = attention(run)
    assert full.chart.count('class="cross"') == 2  # layer 0 has heads 0 and 2 of four
    assert full.layers[1]["entropy"] == 1.55
    assert [row["layer"] for row in half.layers] == [0, 2]


def test_the_tables_have_the_figures_that_there_are_by_names_for_what_is_read(folder: Path) -> None:
    beside = {"separators": 0.5, "same": 0.25, "previous": 0.125}
    heads = [{"head": 0, "entropy": 1.0, "distance": 2.0, **beside}, {"head": 3, "entropy": 3.0, "distance": None}]
    edit_probe(folder, "teacher", "attention", details={"layers": [{"layer": 1, "heads": heads}], "n_rows": 5})
    texts = attention(collect(folder))[0]
    assert list(texts.columns) == ["entropy", "distance", "separators", "same", "previous"]
    assert texts.columns["distance"] == "Distance, tokens"
    assert texts.layers == ({"layer": 1, "heads": 2, "entropy": 2.0, "distance": 2.0, **beside},)
    page = build(folder).read_text()
    row = "<td>1</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
    assert row.format(0, "1.00", "2.00", "0.500", "0.250", "0.125") in page
    assert row.format(3, "3.00", *"––––") in page
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"task": "image-classification"}))
    images = attention(collect(folder))[0]
    assert images.columns["distance"] == "Distance, patches"
    assert images.columns["separators"] == "On the model’s own tokens"


def test_a_large_model_has_part_of_its_layers_mapped_and_says_which(folder: Path) -> None:
    heads = [{"head": h, "entropy": 1.0, "distance": 2.0, "separators": 0.5} for h in range(25)]
    layers = [{"layer": n, "heads": heads} for n in range(48)]
    edit_probe(folder, "teacher", "attention", details={"layers": layers, "n_rows": 5})
    large = attention(collect(folder))[0]
    assert len(large.shown) * 25 <= MOST_CELLS
    assert (large.shown[0], large.shown[-1], large.of) == (0, 47, 48)
    assert len(large.layers) == 48


def test_missing_names_every_reason(folder: Path) -> None:
    edit_probe(folder, "int8", "typos", failed="KeyError: 'x'", metrics=[], details={})
    (folder / "results" / "half_depth" / "probes" / "patience.json").unlink()
    (folder / "measure.json").unlink()
    told = {(what, why): names for names, what, why in missing(collect(folder))}
    assert told["probe typos", "failed: KeyError: 'x'"] == "int8"
    assert told["probe patience", "not measured yet"] == "half_depth"
    assert told["failed at prune_layers", "prune_layers.keep: 9 is more than the 3 layers of the model"] == "broken"
    assert "half_depth" in told["probe counterfactual", "skipped, because it needs a masked language model"]
    assert told["size and speed", "not measured yet"].startswith("teacher, teacher_onnx")


def test_a_skipped_task_of_a_probe_has_its_reason(folder: Path) -> None:
    tasks = [{"task": "length", "skipped": "all texts have one length"}]
    edit_probe(folder, "teacher", "linear", details={"tasks": tasks})
    assert ("teacher", "probe linear, task length", "skipped, because all texts have one length") in missing(
        collect(folder)
    )


def test_a_complete_run_misses_nothing(run_of: Callable[..., Run], tmp_path: Path) -> None:
    run_of(models()[:5])
    for path in (tmp_path / "other").glob("results/*/probes/counterfactual.json"):
        path.unlink()
    assert missing(collect(tmp_path / "other")) == []


def test_a_new_probe_is_known_without_being_listed(run: Run) -> None:
    assert "patience" in probe_names(run)
    assert len(results(run, "patience")) == 5
    assert results(run, "counterfactual") == []


def test_changed_words_marks_the_edit_and_keeps_the_text() -> None:
    pieces = changed_words("a quiet  film", "a qiuet  film")
    assert "".join(piece for piece, _ in pieces) == "a qiuet  film"
    assert [piece for piece, changed in pieces if changed] == ["qiuet"]
