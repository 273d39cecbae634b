"""What is lost when a property is erased: LEACE on each layer, and amnesic probing of the model's own task.

LEACE (Belrose et al. 2023, `probe/leace.py`) is fitted on the train texts' pooled states of a layer. A linear
classifier fitted before and one fitted after on the same rows are scored on held-out rows: after, it should name the
majority. `moved` says how much of the states' variance went with it.

That a property can be read off does not mean that it is used. Amnesic probing (Elazar et al. 2021, "Amnesic Probing")
asks the model itself: every token's state is erased as it leaves a layer, and the model goes on with its own task.
Beside it stands the same with as many random directions lost. Accuracy that falls further than there was the property's
doing. The paper erases by INLP, which takes away many more directions than LEACE does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from probe.job_tasks import TaskName, job_tasks, job_test_rows, parser_files, parser_of_tasks
from probe.layer_states import LayerStates, PooledLayer
from probe.pooling import Pooling
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.rates import rate
from probe.tasks import Task

if TYPE_CHECKING:
    import torch

    from assay.core.model.predict import Predictor
    from probe.amnesia import Amnesia
    from probe.leace import Eraser


class ErasureProbe(Probe):
    """`samples` texts of the train split fit the erasers and classifiers, `test_samples` of the test split score them.

    `amnesic` says behind which layers states are erased on the way."""

    version: ClassVar[int] = 2
    needs: ClassVar[Needs] = "torch"
    images: ClassVar[bool] = True

    tasks: list[TaskName] = Field(["length", "bigram_shift", "label"], min_length=1)
    samples: PositiveInt = 600
    test_samples: PositiveInt = 300
    pooling: Pooling = "first"
    amnesic: Literal["last", "each", "none"] = "last"

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are those of the last layer; `details` hold all layers."""
        box = ctx.states.of(model)
        tasks = job_tasks(self.tasks, ctx, self.samples, self.test_samples)
        parts = [part for task in tasks if not task.obstacle() for part in (task.train, task.test)]
        states = LayerStates.read(box, parts, [self.pooling], number_bytes=8)
        amnesia = self._amnesia(model, ctx)
        found = [self._examine(task, states, amnesia) for task in tasks]
        metrics = [metric for task in found for metric in _headline(task)]
        return Findings(metrics, {"tasks": found, "model": amnesia.untouched() if amnesia else None})

    def inputs(self) -> list[Path]:
        return parser_files(self.tasks, "erasure.tasks")

    def silver(self) -> str | None:
        return parser_of_tasks(self.tasks)

    def tiny(self) -> ErasureProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16})

    def _amnesia(self, model: Predictor, ctx: ProbeContext) -> Amnesia | None:
        """None where it is not asked for, or where no test row has a class."""
        from probe.amnesia import Amnesia

        rows = job_test_rows(ctx, self.test_samples)
        return Amnesia.of(model, rows, ctx.seed) if self.amnesic != "none" and rows.texts else None

    def _examine(self, task: Task, states: LayerStates, amnesia: Amnesia | None) -> dict[str, Any]:
        obstacle = task.obstacle()
        layers = [] if obstacle else _all_layers(task, states)
        return {
            "task": task.name,
            "silver": task.silver,
            "majority": task.majority,
            "n_train": len(task.train.labels),
            "n_test": len(task.test.labels),
            "skipped": obstacle,
            "layers": [layer.told(len(task.test.labels)) for layer in layers],
            "amnesic": self._forgetting(layers, amnesia) if amnesia else [],
        }

    def _forgetting(self, layers: list[ErasedLayer], amnesia: Amnesia) -> list[dict[str, Any]]:
        """The model's accuracy without the property, behind each layer that is asked for; the first of `layers` is the
        embedding output."""
        behind = list(enumerate(layers[1:]))
        behind = behind[-1:] if self.amnesic == "last" else behind
        return [{"layer": layer.number} | amnesia.behind(position, layer.eraser) for position, layer in behind]


@dataclass(frozen=True)
class ErasedLayer:
    """A layer's eraser, the fraction of its states' variance that went, and the classifiers' right test rows."""

    number: int
    eraser: Eraser
    moved: float
    before: int
    after: int

    def told(self, n: int) -> dict[str, Any]:
        """Plain data, with accuracies on the `n` test rows."""
        before, after = rate("before", self.before, n, None), rate("after", self.after, n, None)
        return {
            "layer": self.number,
            "rank": self.eraser.rank,
            "moved": self.moved,
            "before": before.value,
            "before_low": before.low,
            "before_high": before.high,
            "after": after.value,
            "after_low": after.low,
            "after_high": after.high,
        }


def _all_layers(task: Task, states: LayerStates) -> list[ErasedLayer]:
    from assay.core.model.at_once import at_once, one_torch_thread_each

    with one_torch_thread_each() as workers:
        pairs = zip(states.of(task.train), states.of(task.test), strict=True)
        return list(at_once(lambda pair: _one_layer(task, *pair), pairs, workers))


def _one_layer(task: Task, train: PooledLayer, test: PooledLayer) -> ErasedLayer:
    import torch

    from probe.leace import fit_leace, moved

    eraser = fit_leace(train.states, torch.from_numpy(task.train.labels))
    plain = (train.states.double(), test.states.double())
    erased = (eraser(plain[0]), eraser(plain[1]))
    before, after = (_hits(task, plain[0], states) for states in (plain, erased))
    return ErasedLayer(train.number, eraser, moved(eraser, train.states), before, after)


def _hits(task: Task, scale: torch.Tensor, states: tuple[torch.Tensor, torch.Tensor]) -> int:
    """Test rows that a classifier of these (train, test) states gets right. They are scaled by the deviations of
    `scale`: by their own, the rounding that an erased dimension is left with would be as large as a state."""
    from probe.classifiers import fit_classifiers, standardise

    train, test = (standardise(scale, part)[1].float() for part in states)
    (fit,) = fit_classifiers(train, [task.train.labels])
    return int((fit.predict(test) == task.test.labels).sum())


def _headline(task: dict[str, Any]) -> list[Metric]:
    if task["skipped"]:
        return []
    name, last, n = task["task"], task["layers"][-1], task["n_test"]
    after = Metric(f"{name}_after_erasure", last["after"], "fraction", None, n, last["after_low"], last["after_high"])
    return [after, *(_amnesic_metric(name, found) for found in task["amnesic"][-1:])]


def _amnesic_metric(name: str, found: dict[str, Any]) -> Metric:
    bounds = (found["low"], found["high"])
    return Metric(f"{name}_amnesic_change", found["change"], "fraction", None, found["n"], *bounds)
