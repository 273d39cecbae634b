"""The contract of a compression step.

A step is a frozen settings object whose fields are the YAML settings, and one method that does the work. To add one,
write `compress/steps/NAME.py` with one subclass and a test; heavy imports go inside `apply`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from assay.core.artifact import Artifact, Format

if TYPE_CHECKING:
    from assay.core.data.prepare import JobData
    from assay.core.model.layout import Layout

CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Context:
    """What a step may use beside its source: nothing here is written to.

    `scratch` is a folder of the step's own that outlives a kill (checkpoints) and is removed when the step is done.
    `checkpoint_seconds` is how much training time a kill may cost.
    `lineage` holds the artifacts this chain went through, oldest first, `source` included.
    `teacher_logits()` gives the teacher's answers on the training rows, [n, labels] float32, computed once a run.
    `progress(done, total)` feeds the display; `log` takes one plain line.
    """

    seed: int
    data: JobData
    scratch: Path
    teacher: Artifact | None = None
    teacher_logits: Callable[[], np.ndarray] = field(default=lambda: np.empty((0, 0), np.float32))
    lineage: tuple[Artifact, ...] = ()
    log: Callable[[str], None] = print
    progress: Callable[[int, int], None] = field(default=lambda done, total: None)
    checkpoint_seconds: float = CHECKPOINT_SECONDS


class Step(BaseModel, ABC):
    """Settings of one step. `version` goes up when the same settings would give other bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    version: ClassVar[int] = 1
    takes: ClassVar[Format] = "torch"
    gives: ClassVar[Format] = "torch"
    uses_teacher: ClassVar[bool] = False

    @abstractmethod
    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Read `source`, write a whole model folder under `out` and nothing anywhere else, return JSON-able facts.

        The edits to replay on loading go into the facts under `edits` when the step changes shapes."""

    def check(self, layout: Layout, teacher: Layout | None) -> Layout | None:
        """The layout after this step, given the one before it and the teacher's (None in the teacher's own chain).

        Asked of every chain before any training, so nothing but settings may be looked at: heads and neurons that only
        scores can choose count as kept, and None means that not even the layers can be told. Raises SettingError where
        a setting names what `layout` does not have. A step that changes no shape and names no layer inherits this."""
        return layout

    def check_task(self, task: str, layout: Layout, teacher: Layout | None) -> None:
        """As `check`, which it goes before: refuse what does not fit the job's task. Raises SettingError."""

    @property
    def shows_states(self) -> bool:
        """Whether the graph that it writes, and those made of it, give hidden states for probes to look at."""
        return False

    def inputs(self) -> list[Path]:
        """Files that the step reads beside its source and the job's data; their content counts in its key."""
        return []

    def tiny(self) -> Step:
        """These settings for the two-layer stand-in of `--tiny`; a step that names layers or epochs overrides it."""
        return self
