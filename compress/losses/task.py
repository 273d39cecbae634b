"""The loss of the labels themselves, by kind of task."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from assay.core.artifact import is_language
from assay.core.model.questions import NOT_ASKED


def task_loss(logits: Tensor, labels: Tensor, task: str) -> Tensor:
    """Scalar mean loss.

    text-classification: cross-entropy of logits [n, classes] and class indices [n]
    multi-label-classification: binary cross-entropy of logits [n, labels] and 0/1 [n, labels]
    text-regression: squared error of [n, 1] or [n] outputs and [n] targets, never broadcast to [n, n]
    fill-mask, text-generation: cross-entropy of logits [n, tokens, vocabulary] at the places of [n, tokens] that name a
    token, mean over them; 0 where there are none"""
    if is_language(task):
        asked = labels != NOT_ASKED
        return F.cross_entropy(logits[asked], labels[asked], reduction="sum") / asked.sum().clamp(min=1)
    if task == "text-regression":
        return F.mse_loss(logits.reshape(-1), labels.reshape(-1).to(logits.dtype))
    if task == "multi-label-classification":
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
    return F.cross_entropy(logits, labels)


class TaskLoss(nn.Module):
    """Runs the model on a batch and compares with its labels."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self.task = task

    def forward(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        """Scalar; `row` is not an input of the model."""
        inputs = {name: value for name, value in batch.items() if name not in ("labels", "row")}
        return task_loss(model(**inputs).logits, batch["labels"], self.task)
