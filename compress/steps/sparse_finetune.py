"""Train while single weights go: by size on a cubic schedule, or by where training moves them.

Gradual magnitude pruning (Zhu & Gupta 2017) and movement pruning, hard and soft (Sanh et al. 2020), of the linear maps
of the layers. `alpha` mixes in the teacher's answers, as Sanh et al. do in their best runs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from compress.step import Context
from compress.training import TrainingStep, open_for_training, task_or_teacher, train_and_save

if TYPE_CHECKING:
    from compress.sparsity.gradual import GradualLoss
    from compress.sparsity.matrices import Matrix
    from compress.sparsity.schedule import Cubic


class SparseFinetune(TrainingStep):
    """`fraction` of the weights is zero in the end, compared within `scope`. It grows from `initial_fraction` between
    the shares `begin` and `end` of training; masks are renewed each `every` steps.

    soft_movement takes no fraction: `penalty` decides how many scores fall below `threshold`. Scores learn at
    `score_learning_rate`. `alpha` is the weight of the teacher's probabilities at `temperature`, 0 being labels alone.
    """

    uses_teacher: ClassVar[bool] = True

    method: Literal["magnitude", "movement", "soft_movement"] = "magnitude"
    fraction: float | None = Field(default=None, gt=0, lt=1)
    initial_fraction: float = Field(default=0.0, ge=0, lt=1)
    scope: Literal["global", "layer", "matrix"] = "global"
    begin: float = Field(default=0.1, ge=0, lt=1)
    end: float = Field(default=0.7, gt=0, le=1)
    every: int = Field(default=10, ge=1)
    threshold: float = Field(default=0.1, gt=0, lt=0.5)
    penalty: float = Field(default=400.0, gt=0)
    score_learning_rate: float = Field(default=1e-2, gt=0)
    alpha: float = Field(default=0.0, ge=0, le=1)
    temperature: float = Field(default=2.0, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.method == "soft_movement" and self.fraction is not None:
            raise ValueError("fraction: in soft_movement the penalty decides how many weights go; leave fraction out")
        if self.method != "soft_movement" and self.fraction is None:
            raise ValueError(f"fraction: {self.method} needs to know how many weights go")
        if self.fraction is not None and self.initial_fraction >= self.fraction:
            raise ValueError(f"initial_fraction {self.initial_fraction} must be below fraction {self.fraction}")
        if self.begin >= self.end:
            raise ValueError(f"begin {self.begin} must be below end {self.end}")
        return self

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: those of finetune, and method, sparsity and left_out as in prune_weights."""
        from compress.sparsity.matrices import left_out, prunable, zeros_by_matrix

        module = open_for_training(source, ctx.data, ctx.seed)
        matrices = prunable(module, source)
        gradual = self._gradual(matrices, ctx)
        history = train_and_save(self, source, module, gradual, out, ctx, finish=partial(gradual.settle, module))
        sparsity = zeros_by_matrix(matrices)
        return {**history, "method": self.method, "sparsity": sparsity, "left_out": left_out(module, matrices)}

    def _gradual(self, matrices: list[Matrix], ctx: Context) -> GradualLoss:
        from compress.sparsity.choose import groups_of
        from compress.sparsity.gradual import GradualLoss
        from compress.sparsity.movement import MovementLoss, SoftMovementLoss

        groups = groups_of(matrices, self.scope)
        rate = self.score_learning_rate / self.learning_rate
        loss = task_or_teacher("sparse_finetune", self.alpha, self.temperature, ctx)
        shared = loss, matrices, groups, self._cubic(len(ctx.data.train))
        if self.method == "soft_movement":
            return SoftMovementLoss(*shared, 0.0, self.threshold, rate=rate, strength=self.penalty)
        assert self.fraction is not None
        if self.method == "movement":
            return MovementLoss(*shared, self.initial_fraction, self.fraction, rate=rate)
        return GradualLoss(*shared, self.initial_fraction, self.fraction)

    def _cubic(self, rows: int) -> Cubic:
        from compress.sparsity.schedule import over

        return over(self.schedule().steps(rows), self.begin, self.end, self.every)
