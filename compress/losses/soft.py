"""Learning from the teacher's probabilities (Hinton, Vinyals & Dean 2015, "Distilling the Knowledge ...").

The T^2 factor keeps the size of the gradient when the temperature changes; leaving it out is the usual mistake.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def soft_loss(student: Tensor, teacher: Tensor, temperature: float, task: str = "text-classification") -> Tensor:
    """T^2 * KL(teacher || student) at temperature T, mean over rows; logits [n, labels].

    Independent labels compare one Bernoulli a label, summed over labels. Regression has no temperature: squared error
    to the teacher's output."""
    if task == "text-regression":
        return F.mse_loss(student.reshape(-1), teacher.reshape(-1))
    if task == "multi-label-classification":
        student, teacher = _bernoulli(student), _bernoulli(teacher)
    log_p = F.log_softmax(student / temperature, dim=-1)
    log_q = F.log_softmax(teacher / temperature, dim=-1)
    rows = max(1, len(student))
    return F.kl_div(log_p, log_q, reduction="none", log_target=True).sum() / rows * temperature**2


def _bernoulli(logits: Tensor) -> Tensor:
    """[n, labels] -> [n, labels, 2], whose softmax is (sigmoid, 1 - sigmoid)."""
    return F.pad(logits[..., None], (0, 1))
