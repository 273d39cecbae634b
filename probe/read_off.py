"""How well a task's labels can be read off each layer by a linear classifier, with a control task beside it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from assay.core.metric import Metric
from probe.layer_states import LayerStates, PooledLayer
from probe.rates import rate
from probe.tasks import Task, control_labels


def examine(task: Task, states: LayerStates, seed: int) -> dict[str, Any]:
    """Plain data of one task: its baselines, and the scores of every layer or why there are none."""
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


def headline(task: dict[str, Any]) -> list[Metric]:
    """Accuracy and selectivity of the last layer with the first pooling."""
    if task["skipped"]:
        return []
    first_pooling = task["layers"][0]["pooling"]
    last = [layer for layer in task["layers"] if layer["pooling"] == first_pooling][-1]
    name, n = task["task"], task["n_test"]
    return [
        Metric(f"{name}_accuracy", last["accuracy"], "fraction", None, n, last["low"], last["high"]),
        Metric(f"{name}_selectivity", last["selectivity"], "fraction", None, n),
    ]
