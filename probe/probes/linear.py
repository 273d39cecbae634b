"""What each layer encodes: linear classifiers on its states (Conneau et al. 2018).

Each layer's states, pooled to one vector a text, are standardised and given to a logistic regression. Beside its
accuracy stand the majority baseline and the accuracy on a control task (Hewitt and Liang 2019); their difference is
the selectivity. Fitting is strongly regularised (C = 0.01): on a few hundred rows weaker regularisation memorises them
and scores lower on new ones. The paper fits on 100,000 sentences; a low accuracy here means "not easily read off", not
"not there".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, PositiveInt

from probe.against_teacher import with_teacher
from probe.job_tasks import TaskName, job_tasks, parser_files, parser_of_tasks
from probe.pooling import Pooling
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.read_off import findings, read_off

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor


class LinearProbe(Probe):
    """`samples` texts of the train split fit the classifiers, `test_samples` of the test split score them."""

    version: ClassVar[int] = 3
    needs: ClassVar[Needs] = "states"
    images: ClassVar[bool] = True

    tasks: list[TaskName] = Field(["length", "bigram_shift"], min_length=1)
    samples: PositiveInt = 600
    test_samples: PositiveInt = 300
    poolings: list[Pooling] = Field(["mean", "first"], min_length=1)

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """See `read_off.findings`."""
        tasks = job_tasks(self.tasks, ctx, self.samples, self.test_samples)
        return findings(
            *with_teacher(self, model, ctx, lambda of: read_off(tasks, ctx.states.of(of), self.poolings, ctx.seed))
        )

    def inputs(self) -> list[Path]:
        return parser_files(self.tasks, "linear.tasks")

    def silver(self) -> str | None:
        return parser_of_tasks(self.tasks)

    def tiny(self) -> LinearProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16})
