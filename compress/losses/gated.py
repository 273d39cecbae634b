"""Another loss, of the model with learned gates, and the price that draws the gates to a stated sparsity.

Lagrangian (Wang et al. 2020; CoFi, Xia et al. 2022): lambda_1 (s - t) + lambda_2 (s - t)^2, where s is the expected
sparsity and t the target, which rises linearly. The gates descend on it and the multipliers ascend, so that the price
grows as long as s is not t.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor, nn

from assay.core.model.anatomy import Family
from compress.learned_gates import LearnedGates

if TYPE_CHECKING:
    from assay.core.train import Loss

POINTS = 12  # of the history
AnyGates = TypeVar("AnyGates", bound=LearnedGates)


class Lagrangian(nn.Module):
    """The multipliers, which start at 0 and learn `rate` times as fast as the rest."""

    def __init__(self, rate: float = 1.0) -> None:
        super().__init__()
        self.rate = rate
        self.stored = nn.Parameter(torch.zeros(2))

    @property
    def multipliers(self) -> Tensor:
        """[lambda_1, lambda_2]; the gradient of what is stored has the other sign, so descent ascends."""
        return ((self.rate + 1) * self.stored).detach() - self.stored

    def forward(self, sparsity: Tensor, target: float) -> Tensor:
        """Scalar."""
        first, second = self.multipliers.to(sparsity.device)
        return first * (sparsity - target) + second * (sparsity - target) ** 2


class GatedLoss(nn.Module, Generic[AnyGates]):
    """`loss` of the gated model plus the Lagrangian, for `decide_at` steps; then gates are rounded and it is the loss
    of what is left. The target rises to `sparsity` over `warmup` steps. Steps done and the history are buffers, so that
    a checkpoint holds them."""

    def __init__(
        self, loss: Loss, gates: AnyGates, family: Family, sparsity: float, warmup: int, decide_at: int, rate: float
    ) -> None:
        super().__init__()
        self.loss, self.gates, self.family = loss, gates, family
        self.sparsity, self.warmup, self.decide_at = sparsity, warmup, decide_at
        self.lagrangian = Lagrangian(rate)
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self.register_buffer("noted", torch.zeros(POINTS, 5, dtype=torch.float64))

    def forward(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        """Scalar."""
        counter = self.get_buffer("step")
        step = int(counter)
        if step == self.decide_at:
            self.gates.decide(self.sparsity)
        with self.gates.applied(model, self.family):
            loss = self.loss(model, batch)
        if not self.gates.is_decided:
            loss = loss + self._price(step).to(loss.device)
        counter += 1
        return loss

    def target(self, step: int) -> float:
        """The sparsity that is wanted at a step."""
        return self.sparsity * min(1.0, (step + 1) / max(1, self.warmup))

    def settle(self) -> None:
        """Round the gates if the last step has not; call it when training is done."""
        if not self.gates.is_decided:
            self.gates.decide(self.sparsity)

    @property
    def history(self) -> list[dict[str, float]]:
        """At most `POINTS` lines {step, target, expected, lambda_1, lambda_2} from the time when gates are learned."""
        names = ("target", "expected", "lambda_1", "lambda_2")
        lines = [line for line in self.get_buffer("noted").tolist() if line[0]]
        return [
            {"step": int(step), **dict(zip(names, (round(each, 4) for each in values), strict=True))}
            for step, *values in lines
        ]

    def _price(self, step: int) -> Tensor:
        expected, target = self.gates.expected_sparsity(), self.target(step)
        place = step * POINTS // max(1, self.decide_at)
        if step == -(-place * self.decide_at // POINTS):  # the first step of its twelfth
            values = [step + 1, target, expected.item(), *self.lagrangian.multipliers.tolist()]
            self.get_buffer("noted")[place] = torch.tensor(values, dtype=torch.float64)
        return self.lagrangian(expected, target)
