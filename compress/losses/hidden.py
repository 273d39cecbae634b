"""Learning from the teacher's hidden states (Jiao et al. 2020, "TinyBERT", eq. 8), mean over layers and real tokens.

The paper also copies attentions and runs in two stages; this is the hidden-state term alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class HiddenLoss(nn.Module):
    """Squared error between student and teacher states after a learned projection of the student's.

    `pairs` are (student index, teacher index) into the hidden states, embedding output = 0. A projection starts at the
    identity where both widths agree, so training begins from plain squared error; elsewhere it is drawn from `seed`."""

    def __init__(self, pairs: list[tuple[int, int]], student_width: int, teacher_width: int, seed: int = 0) -> None:
        super().__init__()
        self.pairs = pairs
        self.projections = nn.ModuleList(nn.Linear(student_width, teacher_width, bias=False) for _ in pairs)
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.projections.parameters():
            if student_width == teacher_width:
                nn.init.eye_(parameter)
            else:
                nn.init.normal_(parameter, std=student_width**-0.5, generator=generator)

    def forward(self, student: list[Tensor], teacher: list[Tensor], mask: Tensor) -> Tensor:
        """States are lists of [batch, tokens, width]; `mask` [batch, tokens] is 0 on padding. Scalar mean."""
        weight = mask[..., None].to(student[0].dtype)  # [batch, tokens, 1]
        count = weight.sum() * teacher[0].shape[-1]
        errors = [
            ((projection(student[s]) - teacher[t]) ** 2 * weight).sum() / count
            for projection, (s, t) in zip(self.projections, self.pairs, strict=True)
        ]
        return torch.stack(errors).mean()
