"""Whether the settings of every step fit the shape that the model has at that point of its chain, and the files that
probes read are whole; no weights are loaded."""

from __future__ import annotations

from dataclasses import replace

from assay.core.artifact import Artifact, is_image
from assay.core.config.job import Chain, Job
from assay.core.config.problems import Problem, Where
from assay.core.errors import InputError, SettingError
from assay.core.model.edits import layout_of
from assay.core.model.layout import Layout


def check_fit(job: Job, source: Artifact) -> None:
    """ConfigError with every setting that names a layer or head that is not there, or a file that a probe cannot read,
    each with its place in the file."""
    problems: list[Problem] = []
    full = _follow(job.teacher, ("teacher",), job.task, layout_of(source.config), None, problems)
    for name, chain in job.variants.items():
        _follow(chain, ("variants", name), job.task, full, full, problems)
    for index, (name, probe) in enumerate(job.probes):
        try:
            if is_image(job.task) and not probe.images:
                raise InputError("examines models of texts, and the rows of this job are images; remove it")
            probe.check()
            if is_image(job.task) and probe.silver():
                raise InputError("parses texts, and the rows of this job are images; leave out what needs a parser")
        except InputError as error:
            problems.append(_problem(("probes", index), name, error))
    replace(job.document, problems=problems).raise_problems()


def _follow(
    chain: Chain, where: Where, task: str, layout: Layout | None, teacher: Layout | None, problems: list[Problem]
) -> Layout | None:
    """The layout at the end of the chain; None where it cannot be told, and nothing can be checked after that."""
    for index, (name, step) in enumerate(chain):
        if layout is None:
            return None
        try:
            step.check_task(task, layout, teacher)
            layout = step.check(layout, teacher)
        except InputError as error:
            problems.append(_problem((*where, index), name, error))
            return None
    return layout


def _problem(where: Where, name: str, error: InputError) -> Problem:
    if isinstance(error, SettingError):
        return Problem((*where, *error.setting.split(".")), error.text)
    return Problem((*where, name), str(error))
