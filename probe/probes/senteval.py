"""What each layer tells of sentences from files: SentEval's probing tasks (Conneau et al. 2018, "What you can cram into
a single vector", https://aclanthology.org/P18-1198).

A file is a task: lines of split (tr, va, te), label and text. The classifiers are those of `linear`, fitted on a draw
of the rows `tr` and scored on one of the rows `te`; their strength of regularisation is given, so that rows `va` are
not read, by which the paper tunes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, PositiveInt

from probe.against_teacher import with_teacher
from probe.labelled_texts import LabelledTexts, read_labelled_texts
from probe.numbered_lines import setting_file
from probe.pooling import Pooling
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.read_off import findings, read_off
from probe.sample import draw_rows
from probe.tasks import Examples, Task

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor


class SentEvalProbe(Probe):
    """Of each of the `files`, `samples` training rows fit the classifiers and `test_samples` test rows score them. A
    task has the name of its file without its ending."""

    version: ClassVar[int] = 2
    needs: ClassVar[Needs] = "states"

    files: list[str] = Field(min_length=1)
    samples: PositiveInt = 2000
    test_samples: PositiveInt = 1000
    poolings: list[Pooling] = Field(["mean", "first"], min_length=1)

    def inputs(self) -> list[Path]:
        return [setting_file(address, "senteval.files") for address in self.files]

    def check(self) -> None:
        for path in self.inputs():
            read_labelled_texts(path)

    def tiny(self) -> SentEvalProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """See `read_off.findings`."""
        tasks = [self._task(path, ctx.seed) for path in self.inputs()]
        return findings(
            *with_teacher(self, model, ctx, lambda of: read_off(tasks, ctx.states.of(of), self.poolings, ctx.seed))
        )

    def _task(self, path: Path, seed: int) -> Task:
        parts = read_labelled_texts(path)
        train, test = parts["train"], parts["test"]
        return Task(path.stem, _drawn(train, self.samples, seed), _drawn(test, self.test_samples, seed))


def _drawn(rows: LabelledTexts, count: int, seed: int) -> Examples:
    chosen = draw_rows(rows.labels, count, seed)
    return Examples([rows.texts[at] for at in chosen], rows.labels[chosen])
