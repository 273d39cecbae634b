"""Losses equal values computed by hand, for each kind of task."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from compress.losses.distil import DistilLoss
from compress.losses.hidden import HiddenLoss
from compress.losses.soft import soft_loss
from compress.losses.task import TaskLoss, task_loss

TEACHER = torch.tensor([[2.0, 0.0, -1.0]])
STUDENT = torch.tensor([[0.0, 1.0, 0.0]])
MULTI, REGRESSION = "multi-label-classification", "text-regression"


@pytest.mark.parametrize(
    ("temperature", "divergence", "loss"),
    [(1.0, 0.912983, 0.912983), (2.0, 0.272806, 1.091222), (4.0, 0.068001, 1.088009)],
)
def test_soft_loss_is_the_divergence_times_temperature_squared(
    temperature: float, divergence: float, loss: float
) -> None:
    found = soft_loss(STUDENT, TEACHER, temperature).item()
    assert found == pytest.approx(loss, abs=1e-6)
    assert found / temperature**2 == pytest.approx(divergence, abs=1e-6)


def test_soft_loss_is_a_mean_over_rows_and_zero_for_equal_logits() -> None:
    twice = soft_loss(torch.cat([STUDENT, TEACHER]), torch.cat([TEACHER, TEACHER]), 1.0)
    assert twice.item() == pytest.approx(0.912983 / 2, abs=1e-6)
    assert soft_loss(TEACHER, TEACHER + 5, 3.0).item() == pytest.approx(0, abs=1e-6)


def test_the_gradient_keeps_its_size_when_the_temperature_grows() -> None:
    sizes = []
    for temperature in (4.0, 40.0):
        student = STUDENT.clone().requires_grad_()
        soft_loss(student, TEACHER, temperature).backward()
        sizes.append(student.grad.norm().item())
    assert sizes[1] == pytest.approx(sizes[0], rel=0.2)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_independent_labels_are_compared_one_bernoulli_a_label(temperature: float) -> None:
    student, teacher = [0.5, -1.0, 2.0], [3.0, 3.0, -3.0]
    expected = 0.0
    for s, t in zip(student, teacher, strict=True):
        p, q = (1 / (1 + math.exp(-logit / temperature)) for logit in (s, t))
        expected += q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    found = soft_loss(torch.tensor([student]), torch.tensor([teacher]), temperature, MULTI).item()
    assert found == pytest.approx(expected * temperature**2, abs=1e-5)
    assert found != pytest.approx(soft_loss(torch.tensor([student]), torch.tensor([teacher]), temperature).item())


@pytest.mark.parametrize("shape", [(3, 1), (3,)])
def test_regression_never_broadcasts(shape: tuple[int, ...]) -> None:
    """Outputs [3, 1] minus targets [3] would be a [3, 3] table with mean 4.67 instead of 4."""
    outputs, targets = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 4.0, 5.0]).double()
    assert task_loss(outputs.reshape(shape), targets, REGRESSION).item() == pytest.approx((0 + 4 + 4) / 3)
    assert soft_loss(outputs.reshape(shape), targets.float(), 2.0, REGRESSION).item() == pytest.approx((0 + 4 + 4) / 3)


def test_label_losses_equal_their_formulas() -> None:
    log_softmax = 2 - math.log(math.exp(2) + 1 + math.exp(-1))
    assert task_loss(TEACHER, torch.tensor([0]), "text-classification").item() == pytest.approx(-log_softmax, abs=1e-6)
    logs = [math.log(1 + math.exp(-logit)) for logit in (2.0, -0.0, 1.0)]  # truth 1, 0, 0: -log sigmoid(+-logit)
    found = task_loss(TEACHER, torch.tensor([[1, 0, 0]]), MULTI).item()
    assert found == pytest.approx((logs[0] + logs[1] + math.log(1 + math.exp(-1))) / 3, abs=1e-6)


def states(*seeds: int, width: int = 4) -> tuple[torch.Tensor, ...]:
    """One [2 rows, 3 tokens, width] a seed."""
    return tuple(torch.randn(2, 3, width, generator=torch.Generator().manual_seed(seed)) for seed in seeds)


MASK = torch.tensor([[1, 1, 1], [1, 0, 0]])


def test_equal_states_of_equal_width_cost_nothing() -> None:
    loss = HiddenLoss([(0, 0), (1, 2)], 4, 4)
    assert loss(states(1, 2), states(1, 3, 2), MASK).item() == 0
    assert loss(states(1, 2), states(1, 2, 3), MASK).item() > 0.1


def test_hidden_loss_is_the_mean_over_pairs_real_tokens_and_dimensions() -> None:
    student, teacher = states(1), states(2)
    squares = (student[0] - teacher[0]) ** 2
    expected = (squares[0].sum() + squares[1, 0].sum()) / (4 * 4)
    torch.testing.assert_close(HiddenLoss([(0, 0)], 4, 4)(student, teacher, MASK), expected)


def test_padding_costs_nothing() -> None:
    student, teacher = states(1), states(1)
    student[0][1, 1:] += 100
    assert HiddenLoss([(0, 0)], 4, 4)(student, teacher, MASK).item() == 0
    student[0][1, 0] += 1
    assert HiddenLoss([(0, 0)], 4, 4)(student, teacher, MASK).item() > 0


def test_a_projection_between_different_widths_is_learned() -> None:
    student, teacher = states(1, width=6), states(2, width=3)
    loss = HiddenLoss([(0, 0)], 6, 3)
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.05)
    values = []
    for _ in range(200):
        value = loss(student, teacher, MASK)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.1 * values[0]


@pytest.mark.parametrize("widths", [(4, 4), (6, 3)])
def test_projections_do_not_depend_on_what_was_drawn_before(widths: tuple[int, int]) -> None:
    torch.manual_seed(1)
    first = HiddenLoss([(0, 0)], *widths)
    torch.manual_seed(2)
    torch.testing.assert_close(first.state_dict(), HiddenLoss([(0, 0)], *widths).state_dict(), atol=0, rtol=0)


class Answers(nn.Module):
    """A model that gives the same logits whatever it reads, and the states of its input."""

    def __init__(self, logits: torch.Tensor, hidden: tuple[torch.Tensor, ...] = ()) -> None:
        super().__init__()
        self.logits, self.hidden = nn.Parameter(logits), hidden

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **flags: bool) -> SimpleNamespace:
        return SimpleNamespace(logits=self.logits, hidden_states=self.hidden)


BATCH = {
    "input_ids": torch.zeros(2, 3, dtype=torch.long),
    "attention_mask": MASK,
    "labels": torch.tensor([1, 0]),
    "row": torch.tensor([5, 0]),
}
CACHED = np.arange(18, dtype=np.float32).reshape(6, 3) % 4


def test_teacher_answers_are_looked_up_by_row() -> None:
    student = Answers(torch.tensor([[0.0, 1.0, 0.0], [1.0, -1.0, 0.5]]))
    found = DistilLoss(2.0, 1.0, "text-classification", CACHED)(student, BATCH)
    torch.testing.assert_close(found, soft_loss(student.logits, torch.from_numpy(CACHED[[5, 0]]), 2.0))
    wrong_rows = soft_loss(student.logits, torch.from_numpy(CACHED[[0, 1]]), 2.0)
    assert abs(found - wrong_rows) > 0.01


def test_alpha_weighs_teacher_against_labels_and_hidden_states_are_added() -> None:
    student, teacher = Answers(torch.tensor([[0.0, 1, 0], [1, -1, 0.5]]), states(1)), Answers(TEACHER, states(2))
    soft = soft_loss(student.logits, torch.from_numpy(CACHED[[5, 0]]), 2.0)
    hard = TaskLoss("text-classification")(student, BATCH)
    torch.testing.assert_close(hard, task_loss(student.logits, BATCH["labels"], "text-classification"))
    hidden = HiddenLoss([(0, 0)], 4, 4)
    loss = DistilLoss(2.0, 0.7, "text-classification", CACHED, teacher, hidden, 3.0)
    expected = 0.7 * soft + 0.3 * hard + 3 * hidden(student.hidden, teacher.hidden, MASK)
    torch.testing.assert_close(loss(student, BATCH), expected)


def test_the_teacher_is_neither_trained_nor_saved() -> None:
    loss = DistilLoss(2.0, 0.7, "text-classification", CACHED, Answers(TEACHER), HiddenLoss([(0, 0)], 4, 4), 1.0)
    assert list(loss.state_dict()) == ["hidden.projections.0.weight"]
