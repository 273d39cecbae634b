"""How well a task's labels can be read off each layer by a linear classifier, with a control task beside it and, for a
variant, the difference to the teacher on the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.metric import Metric
from probe.against_teacher import change_metric, paired_change
from probe.layer_states import LayerStates, PooledLayer
from probe.pooling import Pooling
from probe.probe import Findings
from probe.rates import rate
from probe.tasks import Task, control_labels

if TYPE_CHECKING:
    from probe.shared_states import SharedStates


@dataclass(frozen=True)
class ReadOff:
    """One task on one model: `told` is plain data, `right` float [test rows] for each layer of it, 1 right, 0 wrong."""

    told: dict[str, Any]
    right: list[np.ndarray]


def read_off(tasks: Sequence[Task], model: SharedStates, poolings: Sequence[Pooling], seed: int) -> list[ReadOff]:
    """Every task: its baselines, and the scores of every layer or why there are none."""
    parts = [part for task in tasks if not task.obstacle() for part in (task.train, task.test)]
    states = LayerStates.read(model, parts, poolings)
    return [_examine(task, states, seed) for task in tasks]


def findings(own: list[ReadOff], theirs: list[ReadOff] | None) -> Findings:
    """Headline metrics are those of the last layer with the first pooling, and its difference to the teacher's last;
    `details` hold all layers."""
    others: Sequence[ReadOff | None] = theirs or [None] * len(own)
    pairs = list(zip(own, others, strict=True))
    told = [each.told | {"teacher": _changes(each, other) if other else []} for each, other in pairs]
    return Findings([metric for each, other in pairs for metric in _headline(each, other)], {"tasks": told})


def _examine(task: Task, states: LayerStates, seed: int) -> ReadOff:
    obstacle = task.obstacle()
    layers = [] if obstacle else _all_layers(task, states, seed)
    told = {
        "task": task.name,
        "silver": task.silver,
        "chance": task.chance,
        "majority": task.majority,
        "n_train": len(task.train.labels),
        "n_test": len(task.test.labels),
        "skipped": obstacle,
        "layers": [layer for layer, _ in layers],
    }
    return ReadOff(told, [right for _, right in layers])


def _all_layers(task: Task, states: LayerStates, seed: int) -> list[tuple[dict[str, Any], np.ndarray]]:
    from assay.core.model.at_once import at_once, one_torch_thread_each

    controls = [control_labels(part.texts, task.train.labels, seed, task.kind) for part in (task.train, task.test)]
    fit = partial(_one_layer, labels=[(task.train.labels, task.test.labels), (controls[0], controls[1])])
    with one_torch_thread_each() as workers:
        return list(at_once(fit, zip(states.of(task.train), states.of(task.test), strict=True), workers))


def _one_layer(
    parts: tuple[PooledLayer, PooledLayer], labels: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[dict[str, Any], np.ndarray]:
    """Scores of a layer's classifiers for the task and for its control, `labels` (train, test) of each, and which test
    rows of the task are right."""
    from probe.classifiers import fit_classifiers, standardise

    train, test = standardise(*(part.states for part in parts))
    fits = fit_classifiers(train, [fitted_on for fitted_on, _ in labels])
    right, control = (fit.predict(test) == truth for fit, (_, truth) in zip(fits, labels, strict=True))
    scores = _scores(int(right.sum()), int(control.sum()), len(test))
    number, pooling, _ = parts[0]
    told = {"layer": number, "pooling": pooling, **scores, "converged": all(fit.converged for fit in fits)}
    return told, right.astype(float)


def _scores(hits: int, control_hits: int, n: int) -> dict[str, float | None]:
    accuracy, control = rate("accuracy", hits, n, None), control_hits / n
    return {
        "accuracy": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "control": control,
        "selectivity": (hits - control_hits) / n,
    }


def _changes(own: ReadOff, theirs: ReadOff) -> list[dict[str, Any]]:
    """Accuracy less the teacher's in the layer of the same number and pooling."""
    like = {_place(layer): right for layer, right in zip(theirs.told["layers"], theirs.right, strict=True)}
    return [
        {"layer": layer["layer"], "pooling": layer["pooling"], **_change(right, like[_place(layer)])}
        for layer, right in zip(own.told["layers"], own.right, strict=True)
        if _place(layer) in like
    ]


def _place(layer: dict[str, Any]) -> tuple[int, str]:
    return layer["layer"], layer["pooling"]


def _change(right: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    return paired_change(right, other, np.arange(len(right)))


def _headline(own: ReadOff, theirs: ReadOff | None) -> list[Metric]:
    if own.told["skipped"]:
        return []
    at = _last(own)
    last, name, n = own.told["layers"][at], own.told["task"], own.told["n_test"]
    metrics = [
        Metric(f"{name}_accuracy", last["accuracy"], "fraction", None, n, last["low"], last["high"]),
        Metric(f"{name}_selectivity", last["selectivity"], "fraction", None, n),
    ]
    if theirs and theirs.right:
        metrics.append(change_metric(f"{name}_change", _change(own.right[at], theirs.right[_last(theirs)])))
    return metrics


def _last(of: ReadOff) -> int:
    """Position of the last layer with the first pooling."""
    layers = of.told["layers"]
    return max(at for at, layer in enumerate(layers) if layer["pooling"] == layers[0]["pooling"])
