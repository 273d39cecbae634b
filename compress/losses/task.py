"""The loss of the labels themselves, by kind of task."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from assay.core.artifact import is_language
from assay.core.model.asked import asked_output
from assay.core.model.questions import NOT_ASKED


def task_loss(logits: Tensor, labels: Tensor, task: str) -> Tensor:
    """Scalar mean loss.

    text-classification: cross-entropy of logits [n, classes] and class indices [n]
    multi-label-classification: binary cross-entropy of logits [n, labels] and 0/1 [n, labels]
    text-regression: squared error of [n, 1] or [n] outputs and [n] targets, never broadcast to [n, n]
    fill-mask, text-generation: cross-entropy of logits [asked, vocabulary] and tokens [asked]; 0 where none is asked"""
    if is_language(task):
        return F.cross_entropy(logits, labels, reduction="sum") / max(1, len(labels))
    if task == "text-regression":
        return F.mse_loss(logits.reshape(-1), labels.reshape(-1).to(logits.dtype))
    if task == "multi-label-classification":
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
    return F.cross_entropy(logits, labels)


def batch_loss(model: nn.Module, inputs: dict[str, Tensor], labels: Tensor, task: str) -> Tensor:
    """Scalar: the loss of what the model answers. `labels` of a language model are [n, tokens], `NOT_ASKED` where
    nothing is asked."""
    if not is_language(task):
        return task_loss(model(**inputs).logits, labels, task)
    asked = labels != NOT_ASKED
    return task_loss(asked_output(model, inputs, asked).logits, labels[asked], task)


class TaskLoss(nn.Module):
    """Runs the model on a batch and compares with its labels."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self.task = task

    def forward(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        """Scalar; `row` is not an input of the model."""
        inputs = {name: value for name, value in batch.items() if name not in ("labels", "row")}
        return batch_loss(model, inputs, batch["labels"], self.task)
