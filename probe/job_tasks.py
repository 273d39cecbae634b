"""The tasks that probes make of a job's own rows, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from assay.core.artifact import ONE_CLASS, is_image
from assay.core.data.images import content_of
from assay.core.errors import InputError, SettingError
from probe.sample import draw_rows
from probe.silver.parser import pipeline, title
from probe.silver.tasks import ParsedTask, ParsedTasks
from probe.tasks import Examples, Task, bigram_shift_task, first_word, length_task
from probe.word_content import word_content_task

if TYPE_CHECKING:
    from assay.core.data.prepare import Split
    from probe.probe import ProbeContext

TaskName = Literal["length", "bigram_shift", "label", "word_content"] | ParsedTask
PARSED: tuple[ParsedTask, ...] = get_args(ParsedTask)


def parser_files(names: Sequence[TaskName], setting: str) -> list[Path]:
    """The file by which the parser is known, where a task needs one. SettingError where none is installed; `setting` is
    the one that names the tasks."""
    first = next((name for name in names if name in PARSED), None)
    try:
        return [pipeline()] if first else []
    except InputError as error:
        raise SettingError(setting, f"{first} {error}") from None


def parser_of_tasks(names: Sequence[TaskName]) -> str | None:
    """Name and version of the parser, None where no task needs one."""
    return title(pipeline()) if set(names) & set(PARSED) else None


def job_tasks(names: Sequence[TaskName], ctx: ProbeContext, samples: int, test_samples: int) -> list[Task]:
    """Each named task once, of `samples` rows of the train split and `test_samples` of the test split.

    Images have no words: of them there is the task `label` alone, whatever is named."""
    train, test = _drawn(ctx.data.train, samples, ctx.seed), _drawn(ctx.data.test, test_samples, ctx.seed)
    kind = content_of(ctx.data.task) if is_image(ctx.data.task) else first_word  # no two images are of one kind
    parsed, reach = ParsedTasks(ctx, samples, test_samples), ctx.data.max_length // 2
    every = (ctx.data.train.texts, ctx.data.test.texts)
    make: dict[TaskName, Callable[[], Task]] = {
        "length": lambda: length_task(train.texts, test.texts),
        "bigram_shift": lambda: bigram_shift_task(train.texts, test.texts, ctx.seed, reach),
        "word_content": lambda: word_content_task(*every, samples, test_samples, ctx.seed, reach),
        **{name: partial(parsed.make, name) for name in PARSED},
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
