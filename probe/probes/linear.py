"""What each layer encodes: linear classifiers on its states (Conneau et al. 2018).

Each layer's states, pooled to one vector a text, are standardised and given to a logistic regression. Beside its
accuracy stand the majority baseline and the accuracy on a control task (Hewitt and Liang 2019); their difference is
the selectivity. Fitting is capped in iterations and strongly regularised (C = 0.01): on a few hundred rows weaker
regularisation memorises them and scores lower on new ones. The paper fits on 100,000 sentences; a low accuracy here
means "not easily read off", not "not there".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from probe.probe import Findings, Probe, ProbeContext
from probe.rates import rate
from probe.sample import draw_rows
from probe.tasks import Examples, Task, bigram_shift_task, control_labels, length_task

if TYPE_CHECKING:
    from assay.core.data.prepare import Split
    from assay.core.model.predict import Predictor, WhiteBox

TaskName = Literal["length", "bigram_shift", "label"]
Pooling = Literal["mean", "first"]


@dataclass(frozen=True)
class LayerStates:
    """Pooled states of the texts of all tasks, each text read once: for each pooling, one [texts, width] a layer.

    `numbers` name the layers: 0 for the embedding output, else 1 + the layer's number in the original model."""

    numbers: tuple[int, ...]
    places: dict[str, int]
    pooled: dict[str, list[np.ndarray]]

    @classmethod
    def read(cls, model: WhiteBox, tasks: list[Task], poolings: list[Pooling]) -> LayerStates:
        """States of the texts of the tasks that can be trained."""
        from probe.pooling import pooled_states

        parts = [part for task in tasks if not task.obstacle() for part in (task.train, task.test)]
        texts = sorted({text for part in parts for text in part.texts})
        numbers = (0, *(layer + 1 for layer in model.layers))
        return cls(numbers, {text: i for i, text in enumerate(texts)}, pooled_states(model, texts, poolings))

    def rows(self, texts: list[str]) -> list[int]:
        """Where these texts are in each layer's array."""
        return [self.places[text] for text in texts]

    def __iter__(self) -> Iterator[tuple[int, str, np.ndarray]]:
        """(layer number, pooling, states [texts, width])."""
        for pooling, layers in self.pooled.items():
            for number, layer in zip(self.numbers, layers, strict=True):
                yield number, pooling, layer


class LinearProbe(Probe):
    """`samples` texts of the train split fit the classifiers, `test_samples` of the test split score them."""

    needs: ClassVar[Literal["logits", "states"]] = "states"

    tasks: list[TaskName] = Field(["length", "bigram_shift"], min_length=1)
    samples: PositiveInt = 600
    test_samples: PositiveInt = 300
    poolings: list[Pooling] = Field(["mean", "first"], min_length=1)

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are those of the last layer with the first pooling; `details` hold all layers."""
        from probe.white_box import as_white_box

        box = as_white_box(model)
        tasks = self._make_tasks(ctx)
        states = LayerStates.read(box, tasks, self.poolings)
        found = [_examine(task, states, ctx.seed) for task in tasks]
        return Findings([metric for task in found for metric in _headline(task)], {"tasks": found})

    def tiny(self) -> LinearProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16})

    def _make_tasks(self, ctx: ProbeContext) -> list[Task]:
        train = ctx.data.train.take(draw_rows(ctx.data.train.labels, self.samples, ctx.seed))
        test = ctx.data.test.take(draw_rows(ctx.data.test.labels, self.test_samples, ctx.seed))
        make = {
            "length": lambda: length_task(train.texts, test.texts),
            "bigram_shift": lambda: bigram_shift_task(train.texts, test.texts, ctx.seed, ctx.data.max_length // 2),
            "label": lambda: Task("label", _labelled(train, ctx.data.task), _labelled(test, ctx.data.task)),
        }
        return [make[name]() for name in dict.fromkeys(self.tasks)]


def _labelled(split: Split, task: str) -> Examples:
    """Rows with a class; none when the job has no single class a row."""
    if task != "text-classification":
        return Examples([], np.array([], dtype=np.int64))
    rows = split.take(np.flatnonzero(split.labels >= 0))
    return Examples(rows.texts, rows.labels)


def _examine(task: Task, states: LayerStates, seed: int) -> dict[str, Any]:
    obstacle = task.obstacle()
    return {
        "task": task.name,
        "chance": task.chance,
        "majority": task.majority,
        "n_train": len(task.train.labels),
        "n_test": len(task.test.labels),
        "skipped": obstacle,
        "layers": [] if obstacle else _all_layers(task, states, seed),
    }


def _all_layers(task: Task, states: LayerStates, seed: int) -> list[dict[str, Any]]:
    """Fits run on one thread: matrices this small lose more to waiting for each other than they gain."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return _fit_layers(task, states, seed)


def _fit_layers(task: Task, states: LayerStates, seed: int) -> list[dict[str, Any]]:
    control, control_test = (control_labels(part.texts, task.train.labels, seed) for part in (task.train, task.test))
    results = []
    for number, pooling, layer in states:
        train, test = standardise(layer[states.rows(task.train.texts)], layer[states.rows(task.test.texts)])
        hits = count_hits(train, task.train.labels, test, task.test.labels)
        control_hits = count_hits(train, control, test, control_test)
        results.append({"layer": number, "pooling": pooling} | _scores(hits, control_hits, len(test)))
    return results


def _scores(hits: int, control_hits: int, n: int) -> dict[str, float | None]:
    accuracy, control = rate("accuracy", hits, n, None), control_hits / n
    return {
        "accuracy": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "control": control,
        "selectivity": (hits - control_hits) / n,
    }


def standardise(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both [n, width] shifted and scaled so that `train` has mean 0 and deviation 1 in each dimension that varies."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test)


def count_hits(train: np.ndarray, train_labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray) -> int:
    """Test rows that a logistic regression fitted on the train rows gets right; with one class it always names that."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(train_labels)) < 2:
        return int((test_labels == train_labels[0]).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the cap on iterations is meant, see above
        probe = LogisticRegression(C=0.01, tol=1e-3, max_iter=50).fit(train, train_labels)
    return int((probe.predict(test) == test_labels).sum())


def _headline(task: dict[str, Any]) -> list[Metric]:
    if task["skipped"]:
        return []
    first_pooling = task["layers"][0]["pooling"]
    last = [layer for layer in task["layers"] if layer["pooling"] == first_pooling][-1]
    name, n = task["task"], task["n_test"]
    return [
        Metric(f"{name}_accuracy", last["accuracy"], "fraction", None, n, last["low"], last["high"]),
        Metric(f"{name}_selectivity", last["selectivity"], "fraction", None, n),
    ]
