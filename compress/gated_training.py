"""What steps share that learn by gates what can go: settings, and the loss that draws gates to a stated sparsity."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from compress.step import Context
from compress.training import TrainingStep, task_or_teacher

if TYPE_CHECKING:
    from assay.core.model.anatomy import Family
    from compress.learned_gates import LearnedGates
    from compress.losses.gated import GatedLoss

    AnyGates = TypeVar("AnyGates", bound=LearnedGates)


class GatedStep(TrainingStep, ABC):
    """`sparsity` is the share that goes of the weights that can go.

    The target rises over `target_warmup`, and gates are rounded at `decide`, both shares of training. Gates and
    multipliers learn at `gate_learning_rate`. `alpha` is the weight of the teacher's probabilities at `temperature`, 0
    being labels alone."""

    uses_teacher: ClassVar[bool] = True

    sparsity: float = Field(gt=0, lt=1)
    target_warmup: float = Field(default=0.3, ge=0, lt=1)
    decide: float = Field(default=0.75, gt=0, le=1)
    gate_learning_rate: float = Field(default=0.1, gt=0)
    alpha: float = Field(default=0.0, ge=0, le=1)
    temperature: float = Field(default=2.0, gt=0)

    @model_validator(mode="after")
    def _rises_before_it_is_decided(self) -> Self:
        if self.target_warmup >= self.decide:
            raise ValueError(f"target_warmup {self.target_warmup} must be below decide {self.decide}")
        return self

    @property
    def gate_speed(self) -> float:
        """How many times as fast as the model its gates learn."""
        return self.gate_learning_rate / self.learning_rate

    def gated_loss(self, gates: AnyGates, family: Family, ctx: Context) -> GatedLoss[AnyGates]:
        """The job's loss, or the teacher's, of the model with its gates, and their price."""
        from compress.losses.gated import GatedLoss

        steps = self.schedule().steps(len(ctx.data.train))
        warmup, decide = round(self.target_warmup * steps), max(1, round(self.decide * steps))
        name = type(self).__module__.rpartition(".")[2]
        loss = task_or_teacher(name, self.alpha, self.temperature, ctx)
        return GatedLoss(loss, gates, family, self.sparsity, warmup, decide, self.gate_speed)


def sparsity_facts(gated: GatedLoss[AnyGates]) -> dict[str, Any]:
    """Facts of decided gates: the sparsity that was asked for, expected in the end and reached; the multipliers."""
    sparsity = {
        "target": gated.sparsity,
        "expected": round(gated.gates.expected_sparsity().item(), 4),
        "reached": round(gated.gates.reached_sparsity(), 4),
    }
    return {"sparsity": sparsity, "multipliers": gated.history}
