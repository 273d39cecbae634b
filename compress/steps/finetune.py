"""Train on the job's labels: makes the teacher, or lets a pruned model recover.

On a pretrained model without a head for the job's classes it adds a fresh, seeded one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.artifact import Artifact
from compress.step import Context
from compress.training import TrainingStep, open_for_training, train_and_save


class Finetune(TrainingStep):
    """Settings are those of every training step."""

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: steps, train_loss, curve, resumed_from, precision."""
        from compress.losses.task import TaskLoss

        module = open_for_training(source, ctx.data, ctx.seed)
        return train_and_save(self, source, module, TaskLoss(ctx.data.task), out, ctx)
