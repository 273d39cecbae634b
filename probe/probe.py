"""The contract of a probe.

A probe is a frozen settings object whose fields are the YAML settings, and one method that examines one model. To add
one, write `probe/probes/NAME.py` with one subclass and a test; heavy imports go inside `run`.

`needs` says which predictor the probe wants: "logits" (any variant, torch or ONNX), "states" (hidden states: torch, and
graphs exported with them) or "torch" (attentions, gradients, states that are changed on the way). Where the variant's
graph does not have that, the probe runs on the torch weights it was exported from, and the result says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from assay.core.metric import Metric
from probe.shared_states import StateCache

if TYPE_CHECKING:
    from assay.core.data.prepare import JobData
    from assay.core.model.predict import Predictor

Needs = Literal["logits", "states", "torch"]


@dataclass(frozen=True)
class Findings:
    """What a probe found on one model: headline `metrics`, and `details` (JSON-able) for curves and maps.

    `skipped` is the reason in words when the model cannot be examined this way; the rest is then empty."""

    metrics: list[Metric] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    skipped: str | None = None


@dataclass(frozen=True)
class ProbeContext:
    """`teacher` is the full model's predictor; probes that compare with it (fidelity) run both on the same rows.

    `states.of(model)` gives hidden states that all probes of a run share, each text read once. `kept` outlives a probe:
    what one found of the teacher and will want again for the next variant, under a key of its own."""

    seed: int
    data: JobData
    teacher: Predictor
    log: Callable[[str], None] = print
    states: StateCache = field(default_factory=StateCache)
    kept: dict[str, Any] = field(default_factory=dict)


class Probe(BaseModel, ABC):
    """Settings of one probe. `version` goes up when the same settings would give other findings."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    version: ClassVar[int] = 1
    needs: ClassVar[Needs] = "logits"
    images: ClassVar[bool] = False  # whether it can examine models of images

    @abstractmethod
    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Examine `model`. Same seed, same findings. Raises NotGiven where the model lacks what is needed."""

    def inputs(self) -> list[Path]:
        """Files that the probe reads beside the job's data; their content counts in the key of its findings."""
        return []

    def silver(self) -> str | None:
        """The parser whose trees or tags this probe takes for true, by name and version; None where there is none."""
        return None

    def check(self) -> None:
        """Refuse, before any training, what settings and files alone show to be wrong. Raises InputError."""
        self.inputs()

    def tiny(self) -> Probe:
        """These settings for the 64 rows of `--tiny`; a probe with sample sizes overrides it."""
        return self
