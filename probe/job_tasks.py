"""The tasks that probes make of a job's own rows, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from assay.core.artifact import ONE_CLASS, is_image
from assay.core.data.images import content_of
from probe.sample import draw_rows
from probe.tasks import Examples, Task, bigram_shift_task, first_word, length_task

if TYPE_CHECKING:
    from assay.core.data.prepare import Split
    from probe.probe import ProbeContext

TaskName = Literal["length", "bigram_shift", "label"]


def job_tasks(names: Sequence[TaskName], ctx: ProbeContext, samples: int, test_samples: int) -> list[Task]:
    """Each named task once, of `samples` rows of the train split and `test_samples` of the test split.

    Images have no words: of them there is the task `label` alone, whatever is named."""
    train, test = _drawn(ctx.data.train, samples, ctx.seed), _drawn(ctx.data.test, test_samples, ctx.seed)
    kind = content_of(ctx.data.task) if is_image(ctx.data.task) else first_word  # no two images are of one kind
    make = {
        "length": lambda: length_task(train.texts, test.texts),
        "bigram_shift": lambda: bigram_shift_task(train.texts, test.texts, ctx.seed, ctx.data.max_length // 2),
        "label": lambda: Task("label", _labelled(train, ctx.data.task), _labelled(test, ctx.data.task), kind),
    }
    told: Sequence[TaskName] = ("label",) if is_image(ctx.data.task) else names
    return [make[name]() for name in dict.fromkeys(told)]


def job_test_rows(ctx: ProbeContext, test_samples: int) -> Examples:
    """The test rows of the task `label`, with the job's own classes."""
    return _labelled(_drawn(ctx.data.test, test_samples, ctx.seed), ctx.data.task)


def _drawn(split: Split, count: int, seed: int) -> Split:
    return split.take(draw_rows(split.labels, count, seed))


def _labelled(split: Split, task: str) -> Examples:
    """Rows with a class; none when the job has no single class a row."""
    if task not in ONE_CLASS:
        return Examples([], np.array([], dtype=np.int64))
    rows = split.take(np.flatnonzero(split.labels >= 0))
    return Examples(rows.texts, rows.labels)
