"""The gate compares what two models answer, in several shapes, and says how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tiny_models import write_tiny

from assay.core.artifact import GRAPH, Artifact, Task, open_source
from assay.core.errors import LimitError
from assay.core.model.export import export
from assay.core.model.graph import as_onnx
from assay.core.model.parity import ROWS, SHAPES, compare_logits, require
from assay.core.model.predict import OnnxPredictor, TorchPredictor

TEXTS = ["great film", "awful plot", "slow"]


class Fixed:
    """Gives the same logits [n, labels] whatever the shape, but for what `changes` adds at a batch size."""

    def __init__(
        self, logits: list[list[float]], changes: dict[int, float] | None = None, task: Task = "text-classification"
    ) -> None:
        self.artifact = Artifact(Path("store/export-12"), "", "torch", task, "bert")
        self.values, self.changes = np.array(logits, dtype=np.float32), changes or {}
        self.batch_size, self.max_length = 32, 128
        self.asked: list[tuple[int, int | None]] = []

    def logits(self, texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        self.asked.append((batch_size, pad_to))
        return self.values[: len(texts)] + self.changes.get(batch_size, 0.0)


REFERENCE = [[2.0, 1.0], [0.0, 3.0], [1.0, 0.9]]


def test_equal_models_differ_by_nothing_in_every_shape() -> None:
    reference, graph = Fixed(REFERENCE), Fixed(REFERENCE)
    found = compare_logits(reference, graph, TEXTS)
    assert (found.max_abs, found.mean_abs, found.flips, found.rows) == (0, 0, 0, 3)
    assert reference.asked == graph.asked == list(SHAPES)
    assert len({batch for batch, _ in SHAPES}) == len({length for _, length in SHAPES}) == 3


def test_a_difference_in_one_shape_only_is_found() -> None:
    found = compare_logits(Fixed(REFERENCE), Fixed(REFERENCE, changes={2: 0.6}), TEXTS)
    assert found.max_abs == pytest.approx(0.6)
    assert found.mean_abs == pytest.approx(0.2)
    assert found.flips == 0


def test_rows_whose_label_changes_are_counted_once() -> None:
    graph = [[2.0, 1.0], [0.0, 3.0], [0.9, 1.0]]
    assert compare_logits(Fixed(REFERENCE), Fixed(graph), TEXTS).flips == 1


@pytest.mark.parametrize(("task", "flips"), [("multi-label-classification", 2), ("text-regression", 0)])
def test_a_flip_is_what_the_task_calls_one(task: Task, flips: int) -> None:
    """Independent labels: each sign counts, though the largest logit stays the same."""
    columns = slice(0, 1) if task == "text-regression" else slice(None)
    before = [row[columns] for row in ([3.0, 0.1], [3.0, 1.0], [-0.1, -2.0])]
    after = [row[columns] for row in ([3.0, -0.1], [3.0, 1.0], [0.1, -2.0])]
    assert compare_logits(Fixed(before, task=task), Fixed(after, task=task), TEXTS).flips == flips


def test_only_the_first_rows_are_compared() -> None:
    many = [[0.0, 1.0]] * (ROWS + 10)
    assert compare_logits(Fixed(many), Fixed(many), ["text"] * len(many)).rows == ROWS


def test_the_message_holds_the_values() -> None:
    source = Fixed(REFERENCE).artifact
    parity = compare_logits(Fixed(REFERENCE), Fixed(REFERENCE, changes={1: 0.25}), TEXTS)
    assert require(parity, 0.3, source)["tolerance"] == 0.3
    message = r"the graph differs from export-12 by 0\.25 in its logits, more than the tolerance 0\.1 \(0 of 3 rows"
    with pytest.raises(LimitError, match=message):
        require(parity, 0.1, source)


def test_what_is_not_a_number_never_passes() -> None:
    parity = compare_logits(Fixed(REFERENCE), Fixed(REFERENCE, changes={5: float("nan")}), TEXTS)
    with pytest.raises(LimitError, match="by nan"):
        require(parity, 1e9, Fixed(REFERENCE).artifact)


def test_a_damaged_weight_in_the_graph_is_found(tmp_path: Path) -> None:
    write_tiny(tmp_path / "bert", layers=1)
    source = open_source(tmp_path / "bert", "text-classification")
    reference = TorchPredictor(source, 32)
    export(reference.module, reference.encoder.tokenizer, tmp_path / "onnx")
    sound = compare_logits(reference, OnnxPredictor(as_onnx(source, tmp_path / "onnx"), 32), TEXTS)
    assert require(sound, 1e-4, source)["max_abs"] < 1e-5
    _flip_signs(tmp_path / "onnx" / GRAPH, "classifier.weight")
    damaged = compare_logits(reference, OnnxPredictor(as_onnx(source, tmp_path / "onnx"), 32), TEXTS)
    with pytest.raises(LimitError, match=rf"by {damaged.max_abs:.3g} .*{damaged.flips} of 3 rows"):
        require(damaged, 1e-4, source)


def _flip_signs(graph: Path, name: str) -> None:
    model = onnx.load(graph)
    (weight,) = (item for item in model.graph.initializer if item.name == name)
    weight.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weight), name))
    onnx.save(model, graph)
