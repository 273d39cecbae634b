"""What each layer encodes: linear classifiers on its states (Conneau et al. 2018).

Each layer's states, pooled to one vector a text, are standardised and given to a logistic regression. Beside its
accuracy stand the majority baseline and the accuracy on a control task (Hewitt and Liang 2019); their difference is
the selectivity. Fitting is strongly regularised (C = 0.01): on a few hundred rows weaker regularisation memorises them
and scores lower on new ones. The paper fits on 100,000 sentences; a low accuracy here means "not easily read off", not
"not there".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from probe.job_tasks import TaskName, job_tasks
from probe.layer_states import LayerStates, PooledLayer
from probe.pooling import Pooling
from probe.probe import Findings, Probe, ProbeContext
from probe.rates import rate
from probe.tasks import Task, control_labels

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor


class LinearProbe(Probe):
    """`samples` texts of the train split fit the classifiers, `test_samples` of the test split score them."""

    version: ClassVar[int] = 2
    needs: ClassVar[Literal["logits", "states"]] = "states"

    tasks: list[TaskName] = Field(["length", "bigram_shift"], min_length=1)
    samples: PositiveInt = 600
    test_samples: PositiveInt = 300
    poolings: list[Pooling] = Field(["mean", "first"], min_length=1)

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are those of the last layer with the first pooling; `details` hold all layers."""
        from probe.white_box import as_white_box

        box = as_white_box(model)
        tasks = job_tasks(self.tasks, ctx, self.samples, self.test_samples)
        parts = [part for task in tasks if not task.obstacle() for part in (task.train, task.test)]
        states = LayerStates.read(box, parts, self.poolings)
        found = [_examine(task, states, ctx.seed) for task in tasks]
        return Findings([metric for task in found for metric in _headline(task)], {"tasks": found})

    def tiny(self) -> LinearProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16})


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
    from assay.core.model.at_once import at_once, one_torch_thread_each

    controls = [control_labels(part.texts, task.train.labels, seed) for part in (task.train, task.test)]
    fit = partial(_one_layer, labels=[(task.train.labels, task.test.labels), (controls[0], controls[1])])
    with one_torch_thread_each() as workers:
        return list(at_once(fit, zip(states.of(task.train), states.of(task.test), strict=True), workers))


def _one_layer(parts: tuple[PooledLayer, PooledLayer], labels: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Scores of a layer's classifiers for the task and for its control, `labels` (train, test) of each."""
    from probe.classifiers import fit_classifiers, standardise

    train, test = standardise(*(part.states for part in parts))
    fits = fit_classifiers(train, [fitted_on for fitted_on, _ in labels])
    hits, control_hits = (int((fit.predict(test) == truth).sum()) for fit, (_, truth) in zip(fits, labels, strict=True))
    converged = all(fit.converged for fit in fits)
    number, pooling, _ = parts[0]
    return {"layer": number, "pooling": pooling, **_scores(hits, control_hits, len(test)), "converged": converged}


def _scores(hits: int, control_hits: int, n: int) -> dict[str, float | None]:
    accuracy, control = rate("accuracy", hits, n, None), control_hits / n
    return {
        "accuracy": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "control": control,
        "selectivity": (hits - control_hits) / n,
    }


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
