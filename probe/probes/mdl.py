"""How easily each layer gives a property away: minimum description length by online coding (Voita and Titov 2020,
https://arxiv.org/abs/2003.12298, section 3.2.1).

Labels are sent in portions. The first goes by a uniform code; each other costs what a probe fitted on all rows before
it assigns to its labels, -log2 p. A property that is easy to read off is learnt from few rows and costs few bits.
Compression is the length of the uniform code for all rows over that of the online code: about 1 where the states say
nothing about labels that are evenly spread, more where they do. Unlike accuracy it also tells how much data the probe
took to get there.

The portions end at the paper's shares of the rows, from 0.1 %, but for those before the first with 10 rows. Where the
paper leaves open how a class is sent that no earlier row had, the probe's distribution is mixed with the uniform one
in the way of Laplace's rule, (rows p + 1) / (rows + classes). The probes are those of `linear`; where the paper tunes
on held-out rows, the code mixes four strengths of regularisation (`probe/online_code.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from probe.job_tasks import TaskName, job_tasks, parser_files, parser_of_tasks
from probe.layer_states import LayerStates, PooledLayer
from probe.pooling import Pooling
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.tasks import Task, control_labels

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor


class MdlProbe(Probe):
    """`samples` texts of the train split are coded; no test rows are read."""

    needs: ClassVar[Needs] = "states"
    images: ClassVar[bool] = True

    tasks: list[TaskName] = Field(["length", "bigram_shift"], min_length=1)
    samples: PositiveInt = 600
    poolings: list[Pooling] = Field(["mean"], min_length=1)

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are those of the last layer with the first pooling; `details` hold all layers."""
        box = ctx.states.of(model)
        tasks = job_tasks(self.tasks, ctx, self.samples, 0)
        states = LayerStates.read(box, [task.train for task in tasks if not task.obstacle(0)], self.poolings)
        found = [_examine(task, states, ctx.seed) for task in tasks]
        return Findings([metric for task in found for metric in _headline(task)], {"tasks": found})

    def inputs(self) -> list[Path]:
        return parser_files(self.tasks, "mdl.tasks")

    def silver(self) -> str | None:
        return parser_of_tasks(self.tasks)

    def tiny(self) -> MdlProbe:
        return self.model_copy(update={"samples": 32})


def _examine(task: Task, states: LayerStates, seed: int) -> dict[str, Any]:
    from probe.online_code import obstacle as too_few

    obstacle = task.obstacle(0) or too_few(len(task.train.labels))
    n, classes = len(task.train.labels), len(np.unique(task.train.labels))
    return {
        "task": task.name,
        "silver": task.silver,
        "classes": classes,
        "n": n,
        "uniform_bits": n * float(np.log2(max(classes, 1))),
        "skipped": obstacle,
        "layers": [] if obstacle else _all_layers(task, states, seed),
    }


def _all_layers(task: Task, states: LayerStates, seed: int) -> list[dict[str, Any]]:
    from assay.core.model.at_once import at_once, one_torch_thread_each
    from probe.online_code import online_bits

    control = control_labels(task.train.texts, task.train.labels, seed, task.kind)
    classes = np.unique(task.train.labels)
    order = np.random.default_rng(seed).permutation(len(control))
    labels = [np.searchsorted(classes, part)[order] for part in (task.train.labels, control)]
    uniform = len(order) * float(np.log2(len(classes)))

    def coded(layer: PooledLayer) -> dict[str, Any]:
        bits = online_bits(layer.states[order], labels, len(classes))
        return _layer(layer.number, layer.pooling, uniform, *bits)

    with one_torch_thread_each() as workers:
        return list(at_once(coded, states.of(task.train), workers))


def _layer(number: int, pooling: str, uniform: float, bits: float, control_bits: float) -> dict[str, Any]:
    return {
        "layer": number,
        "pooling": pooling,
        "bits": bits,
        "compression": uniform / bits,
        "control_bits": control_bits,
        "control_compression": uniform / control_bits,
    }


def _headline(task: dict[str, Any]) -> list[Metric]:
    if task["skipped"]:
        return []
    first_pooling = task["layers"][0]["pooling"]
    last = [layer for layer in task["layers"] if layer["pooling"] == first_pooling][-1]
    name, n = task["task"], task["n"]
    return [
        Metric(f"{name}_compression", last["compression"], "ratio", None, n),
        Metric(f"{name}_control_compression", last["control_compression"], "ratio", None, n),
    ]
