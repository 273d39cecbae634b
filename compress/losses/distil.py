"""The loss of a distillation: soft targets, labels, and hidden states where asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from assay.core.artifact import is_language
from assay.core.model.asked import asked_output
from assay.core.model.outputs import hidden_states_of, real_tokens
from assay.core.model.questions import NOT_ASKED
from compress.losses.hidden import HiddenLoss
from compress.losses.soft import soft_loss
from compress.losses.task import task_loss


class DistilLoss(nn.Module):
    """`teacher_logits` [n, labels] cover the training rows and are looked up by `row`. A language model has none of
    them: its teacher is asked along with it, at the same places.

    The teacher module is only run for that, and when hidden states are compared; it is kept out of the module tree so
    that it is neither trained nor saved."""

    def __init__(
        self,
        temperature: float,
        alpha: float,
        task: str,
        teacher_logits: np.ndarray | None,
        teacher: nn.Module | None = None,
        hidden: HiddenLoss | None = None,
        hidden_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.temperature, self.alpha, self.task, self.hidden_weight = temperature, alpha, task, hidden_weight
        self.teacher_logits = None if teacher_logits is None else torch.from_numpy(teacher_logits)
        self.hidden = hidden
        self._teacher = (teacher,)

    def forward(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        """Scalar."""
        inputs = {name: value for name, value in batch.items() if name not in ("labels", "row")}
        states = self.hidden is not None
        asked = batch["labels"] != NOT_ASKED if is_language(self.task) else None
        out = _answer(model, inputs, asked, states)
        theirs = self._ask_teacher(inputs, asked, states) if states or self.teacher_logits is None else None
        logits, labels = out.logits.float(), batch["labels"] if asked is None else batch["labels"][asked]
        loss = self.alpha * soft_loss(logits, self._target(batch, theirs), self.temperature, self.task)
        if self.alpha < 1:
            loss = loss + (1 - self.alpha) * task_loss(logits, labels, self.task)
        if self.hidden is not None:
            own, told = hidden_states_of(out), hidden_states_of(theirs)
            loss = loss + self.hidden_weight * self.hidden(own, told, real_tokens(inputs, own[0]))
        return loss

    def _target(self, batch: dict[str, Tensor], theirs: Any) -> Tensor:
        if self.teacher_logits is None:
            return theirs.logits.float()
        return self.teacher_logits[batch["row"].cpu()].to(batch["labels"].device)

    @torch.no_grad()
    def _ask_teacher(self, inputs: dict[str, Tensor], asked: Tensor | None, states: bool) -> Any:
        (teacher,) = self._teacher
        assert teacher is not None
        teacher.to(next(iter(inputs.values())).device)
        return _answer(teacher, inputs, asked, states)


def _answer(model: nn.Module, inputs: dict[str, Tensor], asked: Tensor | None, states: bool) -> Any:
    if asked is None:
        return model(**inputs, output_hidden_states=states)
    return asked_output(model, inputs, asked, output_hidden_states=states)
