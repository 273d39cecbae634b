"""A job: what a config asks for, checked and with every default filled in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assay.core.artifact import Task
from assay.core.config.yaml_lines import Document
from assay.core.data.settings import DataSettings, SplitSizes
from assay.core.measure.settings import MeasureSettings

Chain = tuple[tuple[str, Any], ...]  # (file name of the method, its Step or Probe); the kernel does not import those
BASELINES = ("teacher", "teacher_onnx")  # names of the full model in results, so no variant can have them


class JobSettings(BaseModel):
    """The top of a config. Entries of `teacher`, `variants` and `probes` are checked one by one, by their own class."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    seed: int = Field(default=13, ge=0, lt=2**32)
    task: Task = "text-classification"
    model: str = Field(min_length=1, description="path, pkg:package/path or hf:org/name")
    data: DataSettings
    teacher: list[Any] = []
    variants: dict[str, list[Any]] = Field(min_length=1)
    probes: list[Any] = []
    measure: MeasureSettings = MeasureSettings()


TINY_ROWS = 64


@dataclass(frozen=True)
class Job:
    """`teacher` leads from the source `model` to the full model; each variant is a chain that starts from there.

    `document` is the file it was read from: what is found wrong later is told with its line too."""

    path: Path
    seed: int
    task: Task
    model: str
    data: DataSettings
    teacher: Chain
    variants: dict[str, Chain]
    probes: Chain
    measure: MeasureSettings
    document: Document = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """The config's file name without its ending."""
        return self.path.stem

    @property
    def addresses(self) -> list[str]:
        """Where the model and the tables come from, as written in the config."""
        data = self.data
        return [item for item in (self.model, data.source, data.test_source, data.validation_source) if item]

    def resolved(self) -> dict[str, Any]:
        """The config with every default written out, JSON-able; it loads as the same job again."""
        return {
            "seed": self.seed,
            "task": self.task,
            "model": self.model,
            "data": _written_data(self.data),
            "teacher": _written(self.teacher),
            "variants": {name: _written(chain) for name, chain in self.variants.items()},
            "probes": _written(self.probes),
            "measure": self.measure.model_dump(mode="json"),
        }


def tiny(job: Job) -> Job:
    """The same job with the settings of `--tiny`, which runs in seconds on a two-layer stand-in and 64 rows."""
    return replace(
        job,
        data=job.data.model_copy(update={"limit": TINY_ROWS, "split": SplitSizes(test=16, validation=16)}),
        teacher=_tiny(job.teacher),
        variants={name: _tiny(chain) for name, chain in job.variants.items()},
        probes=_tiny(job.probes),
        measure=job.measure.model_copy(update={"rounds": 3, "warmup": 1, "starts": 1}),
    )


def _written(chain: Chain) -> list[dict[str, Any]]:
    return [{name: settings.model_dump(mode="json")} for name, settings in chain]


def _written_data(data: DataSettings) -> dict[str, Any]:
    """A split that comes from its own file has no size: it would be refused on reading."""
    written = data.model_dump(mode="json")
    for name in ("test", "validation"):
        if written[f"{name}_source"] is not None:
            del written["split"][name]
    return written


def _tiny(chain: Chain) -> Chain:
    return tuple((name, settings.tiny()) for name, settings in chain)
