"""The loss of a distillation: soft targets, labels, and hidden states where asked."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from assay.core.model.outputs import hidden_states_of
from compress.losses.hidden import HiddenLoss
from compress.losses.soft import soft_loss
from compress.losses.task import task_loss


class DistilLoss(nn.Module):
    """`teacher_logits` [n, labels] cover the training rows and are looked up by `row`.

    The teacher module is only run when hidden states are compared; it is kept out of the module tree so that it is
    neither trained nor saved."""

    def __init__(
        self,
        temperature: float,
        alpha: float,
        task: str,
        teacher_logits: np.ndarray,
        teacher: nn.Module | None = None,
        hidden: HiddenLoss | None = None,
        hidden_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.temperature, self.alpha, self.task, self.hidden_weight = temperature, alpha, task, hidden_weight
        self.teacher_logits = torch.from_numpy(teacher_logits)
        self.hidden = hidden
        self._teacher = (teacher,)

    def forward(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        """Scalar."""
        inputs = {name: value for name, value in batch.items() if name not in ("labels", "row")}
        out = model(**inputs, output_hidden_states=self.hidden is not None)
        target = self.teacher_logits[batch["row"].cpu()].to(out.logits.device)
        loss = self.alpha * soft_loss(out.logits.float(), target, self.temperature, self.task)
        if self.alpha < 1:
            loss = loss + (1 - self.alpha) * task_loss(out.logits.float(), batch["labels"], self.task)
        if self.hidden is not None:
            loss = loss + self.hidden_weight * self.hidden(
                hidden_states_of(out), self._states(inputs), inputs["attention_mask"]
            )
        return loss

    @torch.no_grad()
    def _states(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        (teacher,) = self._teacher
        assert teacher is not None
        teacher.to(inputs["input_ids"].device)
        return hidden_states_of(teacher(**inputs, output_hidden_states=True))
