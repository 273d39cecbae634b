"""How faithfully a variant answers as its teacher does, and whether its answers depend on how texts are batched.

Loyalty as in Xu et al. 2021, "Beyond Preserved Accuracy". Layouts: the same rows one at a time without padding, in
batches of 32 by length, and in eights padded to the full length, against the layout of the evaluation. With fp32
weights no label should change; int8 graphs that scale their activations by tensor see padding and batch mates, so
theirs may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from assay.core.artifact import is_image, is_language
from assay.core.errors import NotGiven
from assay.core.evaluate import compare
from assay.core.metric import Metric
from assay.core.stats import predicted_labels, same_labels, wilson_interval
from probe.probe import Findings, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.data.prepare import Split
    from assay.core.model.predict import Predictor


class FidelityProbe(Probe):
    """All test rows are compared with the teacher, `layout_samples` of them in other layouts."""

    version: ClassVar[int] = 2
    images: ClassVar[bool] = True

    layout_samples: PositiveInt = 100

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """For regression only the mean change of the value is given, since there is no label to flip. NotGiven for a
        language model, which the evaluation compares token by token."""
        test, task = ctx.data.test, ctx.data.task
        if is_language(task):
            raise NotGiven(f"fidelity compares labels; a {task} model is compared token by token where it is evaluated")
        if not len(test):
            raise NotGiven("fidelity compares test rows, and the test split is empty")
        logits, teacher_logits = model.logits(test.texts), ctx.teacher.logits(test.texts)
        metrics = compare(logits, teacher_logits, test, task)
        if task == "text-regression":
            return Findings(metrics)
        layouts, changed = self._layouts(model, ctx, logits)
        to_wrong, to_right = _flipped_rows(logits, teacher_logits, test, task)
        details = {"to_wrong": to_wrong, "to_right": to_right, "layouts": layouts}
        return Findings([*metrics, _layout_flips(changed)], details)

    def tiny(self) -> FidelityProbe:
        return self.model_copy(update={"layout_samples": 8})

    def _layouts(
        self, model: Predictor, ctx: ProbeContext, logits: np.ndarray
    ) -> tuple[list[dict[str, Any]], np.ndarray]:
        """Flips in each layout, and bool [n]: rows whose label is not the same in all."""
        data, rows = ctx.data, draw_rows(ctx.data.test.labels, self.layout_samples, ctx.seed)
        texts = data.test.take(rows).texts
        others = {
            "batch 1, no padding": model.logits(texts, batch_size=1),
            "batch 32, by length": model.logits(texts, batch_size=32),
            f"batch 8, padded to {data.max_length}": model.logits(texts, batch_size=8, pad_to=data.max_length),
        }
        if is_image(data.task):  # which have no length
            others = {name.partition(",")[0]: other for name, other in others.items()}
        changed = {name: ~same_labels(other, logits[rows], data.task) for name, other in others.items()}
        found = [{"name": name, "flips": int(flips.sum()), "n": len(rows)} for name, flips in changed.items()]
        return found, np.any(list(changed.values()), axis=0)


def _flipped_rows(
    logits: np.ndarray, teacher_logits: np.ndarray, test: Split, task: str
) -> tuple[list[int], list[int]]:
    """Row numbers that only the teacher has right, and those that only the model has right; no hidden labels."""
    rows, labels = np.array(test.rows), test.labels.reshape(len(test), -1)
    known = (labels >= 0).all(axis=1)
    right, teacher_right = (
        (predicted_labels(array, task).reshape(labels.shape) == labels).all(axis=1)
        for array in (logits, teacher_logits)
    )
    return rows[known & teacher_right & ~right].tolist(), rows[known & ~teacher_right & right].tolist()


def _layout_flips(changed: np.ndarray) -> Metric:
    flips, n = int(changed.sum()), len(changed)
    low, high = wilson_interval(flips, n)
    return Metric("layout_flips", flips, "rows", False, n, low * n, high * n)
