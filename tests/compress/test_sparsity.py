"""Which weights go, with values worked out by hand; what is left is near what was there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from assay.core.errors import AssayError, InputError
from compress.sparsity import sparsegpt
from compress.sparsity.calibration import input_sums, layer_by_layer, real_rows
from compress.sparsity.choose import Selection, lowest, lowest_of_rows, off_pattern
from compress.sparsity.matrices import Matrix
from compress.sparsity.schedule import Cubic, over
from compress.sparsity.sparsegpt import inverse_root, outer, reconstruct
from compress.sparsity.subject import Subject
from compress.sparsity.wanda import squared, wanda_scores
from compress.sparsity.zeros import zeros_held


def linear(values: list[list[float]], layer: int | None = 0, path: str = "map") -> Matrix:
    """A matrix of a layer, its map holding these values [out, in]."""
    made = nn.Linear(len(values[0]), len(values), bias=False)
    made.weight = nn.Parameter(torch.tensor(values))
    return Matrix(layer, path, f"layer.{layer}.{path}.weight", made)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_exactly_the_lowest_go_and_of_equal_ones_the_first() -> None:
    assert lowest(torch.tensor([3.0, 1, 2, 1, 1]), 2).tolist() == [False, True, False, True, False]
    assert lowest(torch.tensor([3.0, 1, 2]), 0).tolist() == [False] * 3
    assert lowest(torch.zeros(5), 3).tolist() == [True, True, True, False, False]
    assert lowest(torch.tensor([0.0, -torch.inf, 1]), 1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        ("global", [[0, 0, 0, 0], [0, 0, 7, 8], [9, 10, 11, 12]]),
        ("layer", [[0, 0, 0, 0], [5, 6, 7, 8], [0, 0, 11, 12]]),
        ("matrix", [[0, 0, 3, 4], [0, 0, 7, 8], [0, 0, 11, 12]]),
    ],
)
def test_a_scope_says_what_is_compared(scope: str, left: list[list[float]]) -> None:
    first, second, other = linear([[1.0, 2, 3, 4]]), linear([[5.0, 6, 7, 8]]), linear([[9.0, 10, 11, 12]], layer=1)
    matrices = [first, second, other]
    matrices = [Matrix(each.layer, each.path, f"{place}", each.module) for place, each in enumerate(matrices)]
    weights = [each.weight for each in matrices]
    gone = Selection(0.5, scope).gone(matrices, weights)  # type: ignore[arg-type]
    assert [weight.masked_fill(out, 0)[0].tolist() for weight, out in zip(weights, gone, strict=True)] == left


def test_each_row_loses_the_same_share() -> None:
    scores = torch.tensor([[1.0, 2, 3, 4], [40, 30, 20, 10]])
    assert lowest_of_rows(scores, 0.5).tolist() == [[True, True, False, False], [False, False, True, True]]


def test_of_every_four_the_two_largest_stay() -> None:
    scores = torch.tensor([[1.0, 9, 2, 8, 5, 5, 5, 5], [0, 0, 0, 1, 4, 3, 2, 1]])
    gone = off_pattern(scores, 2, 4)
    assert gone[0].tolist() == [True, False, True, False, True, True, False, False]
    assert gone[1].tolist() == [True, True, False, False, False, False, True, True]
    assert (off_pattern(drawn(8, 32), 1, 8).unflatten(1, (-1, 8)).sum(-1) == 7).all()


def test_groups_that_do_not_fit_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"prune_weights.pattern: 3\.odd has 6 inputs, which is no multiple of 4"):
        Selection(pattern=(2, 4)).gone([linear([[1.0] * 6], layer=3, path="odd")], [torch.ones(1, 6)])


def test_a_pattern_runs_along_the_inputs_of_either_kind_of_map() -> None:
    weight = drawn(6, 8)
    stored = Conv1D(6, 8)  # [in, out]
    stored.weight = nn.Parameter(weight.T.clone())
    plain, turned = linear(weight.tolist()), Matrix(0, "map", "map.weight", stored)
    for each in (plain, turned):
        Subject(nn.Module(), [each], Selection(pattern=(2, 4)), seed=0).zero([each], [each.weight.abs()])
    torch.testing.assert_close(turned.parameter.T, plain.parameter, atol=0, rtol=0)
    assert (plain.weight.unflatten(1, (-1, 4)) != 0).sum(-1).eq(2).all()


def test_wanda_weighs_a_weight_by_its_input() -> None:
    """Norms 3, 4, 0.5, 1: the products are [3, 4, 1.5, 2] and [0.3, 8, 2, 1], so two of each row stay."""
    rows = torch.tensor([[3.0, 0, 0.5, 0.6], [0, 4, 0, 0.8]])
    weight = torch.tensor([[1.0, -1, 3, 2], [0.1, 2, -4, 1]])
    scores = wanda_scores(weight, squared(rows))
    torch.testing.assert_close(scores, torch.tensor([[3, 4, 1.5, 2], [0.3, 8, 2, 1]]))
    assert weight.masked_fill(lowest_of_rows(scores, 0.5), 0).tolist() == [[1, -1, 0, 0], [0, 2, -4, 0]]
    by_size = weight.masked_fill(lowest_of_rows(weight.abs(), 0.5), 0)
    assert by_size.tolist() == [[0, 0, 3, 2], [0, 2, -4, 0]]


class Chain(nn.Module):
    """Two maps on states that are handed in as `states` [batch, tokens, in]."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False)
        self.calls = 0

    def forward(self, states: Tensor, attention_mask: Tensor) -> Tensor:
        out = self.second(self.first(states))
        self.calls += 1
        return out


def test_padding_does_not_count_and_a_pass_stops_where_it_may() -> None:
    model = Chain()
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    states = drawn(2, 3, 3)
    padded = states.masked_fill(~mask.bool()[..., None], 100.0)
    batch = {"states": padded, "attention_mask": mask}
    real = torch.stack([states[0, 0], states[0, 1], states[1, 0]])
    (found,) = input_sums(model, [model.first], [batch, batch], squared, until=model.second)
    torch.testing.assert_close(found, 2 * real.square().sum(0))
    assert model.calls == 0
    (later,) = input_sums(model, [model.second], [batch], outer)
    seen = model.first(real).detach()
    torch.testing.assert_close(later, seen.T @ seen)
    assert model.calls == 1


def test_a_layer_reads_what_the_pruned_ones_below_hand_it() -> None:
    model, mask = Chain(), torch.ones(1, 4)
    batch = {"states": drawn(1, 4, 3), "attention_mask": mask}
    matrices = [Matrix(0, "first", "first.weight", model.first), Matrix(1, "second", "second.weight", model.second)]
    seen = {}
    for each, energy in layer_by_layer(Subject(model, matrices, Selection(0.5), 0, [batch]), squared):
        seen[each.path] = energy
        each.weight[0] = 0  # the first output
    assert (seen["first"] > 0).all()
    assert (seen["second"] > 0).tolist() == [False, True, True]
    assert model.calls == 1


def test_states_that_are_not_the_tokens_of_the_batch_all_count() -> None:
    mask = torch.tensor([[True, False]])
    assert real_rows(torch.ones(1, 2, 4), mask).shape == (1, 4)
    assert real_rows(torch.ones(1, 7, 4), mask).shape == (7, 4)
    assert real_rows(torch.ones(3, 4), mask).shape == (3, 4)


@pytest.fixture(scope="module")
def rows() -> Tensor:
    """[tokens, in] of inputs that go together, so that one can stand in for another."""
    return drawn(400, 6, seed=1) @ drawn(6, 16, seed=2) + 0.5 * drawn(400, 16, seed=3)


def error(before: Tensor, after: Tensor, rows: Tensor) -> float:
    """Squared error of the outputs."""
    return float((rows @ (before - after).T).square().sum())


def test_the_root_is_one_of_the_inverse(rows: Tensor) -> None:
    root = inverse_root(outer(rows), 0.01)
    hessian = outer(rows) + 0.01 * outer(rows).diagonal().mean() * torch.eye(16)
    torch.testing.assert_close(root.T @ root @ hessian, torch.eye(16), atol=1e-3, rtol=0)
    assert root.equal(root.triu())


def test_what_stays_is_least_squares_where_all_that_goes_is_to_its_left(rows: Tensor) -> None:
    """The first five weights are tiny, so they go; the closed form is w_S = H_SS^-1 H_S: w."""
    weight = drawn(1, 16, seed=3)
    weight[:, :5] *= 1e-3
    after = reconstruct(weight, inverse_root(outer(rows), 0.01), 5 / 16, None, block=16)
    assert (after == 0)[0].tolist() == [True] * 5 + [False] * 11
    hessian = (outer(rows) + 0.01 * outer(rows).diagonal().mean() * torch.eye(16)).double()
    solved = torch.linalg.solve(hessian[5:, 5:], hessian[5:] @ weight[0].double())
    torch.testing.assert_close(after[0, 5:], solved.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("fraction", "pattern"), [(0.5, None), (None, (2, 4))])
def test_others_make_up_for_what_goes(fraction: float | None, pattern: tuple[int, int] | None, rows: Tensor) -> None:
    weight = drawn(24, 16, seed=3)
    after = reconstruct(weight, inverse_root(outer(rows), 0.01), fraction, pattern, block=8)
    (smallest,) = Selection(fraction, "matrix", pattern).gone([linear([[0.0] * 16])], [weight.abs()])
    by_size = weight.masked_fill(smallest, 0)
    assert int((after == 0).sum()) == int((by_size == 0).sum()) == 24 * 8
    best = best_on(after != 0, weight, rows)
    assert error(weight, best, rows) < error(weight, after, rows) < 0.5 * error(weight, by_size, rows)
    if pattern:
        assert ((after.unflatten(1, (-1, 4)) != 0).sum(-1) == 2).all()


def best_on(kept: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
    """The least error that any weights on the kept places give."""
    hessian, best = outer(rows), torch.zeros_like(weight)
    for row, stay in enumerate(kept):
        best[row, stay] = torch.linalg.solve(hessian[stay][:, stay], hessian[stay] @ weight[row])
    return best


@pytest.mark.parametrize(("fraction", "pattern"), [(0.5, None), (None, (2, 4))])
def test_blocks_change_speed_more_than_result(
    fraction: float | None, pattern: tuple[int, int] | None, rows: Tensor
) -> None:
    """With a pattern the groups decide, so the size of the block changes nothing but rounding."""
    weight, root = drawn(8, 16, seed=3), inverse_root(outer(rows), 0.01)
    small, large = (reconstruct(weight, root, fraction, pattern, block) for block in (4, 16))
    if pattern:
        torch.testing.assert_close(small, large, atol=1e-4, rtol=1e-4)
    else:
        assert not torch.allclose(small, large, atol=1e-2)


def test_zeros_stay_when_errors_are_handed_on(rows: Tensor) -> None:
    weight = drawn(8, 16, seed=3)
    weight[:, 3::4] = 0
    after = reconstruct(weight, inverse_root(outer(rows), 0.01), 0.25, None, block=16)
    assert (after == 0).equal(weight == 0)


def test_inputs_that_cannot_be_told_apart_end_in_one_line() -> None:
    each = linear(drawn(2, 4).tolist(), layer=1, path="query")
    model = nn.ModuleDict({"map": each.module})
    model.forward = lambda states, attention_mask: each.module(states)  # type: ignore[method-assign]
    batch = {"states": torch.zeros(1, 2, 4), "attention_mask": torch.ones(1, 2)}
    with pytest.raises(AssayError, match=r"1\.query: .* raise prune_weights\.damping \(now 0\.01\) or rows"):
        sparsegpt.prune(Subject(model, [each], Selection(0.5), 0, [batch]))


def test_the_cubic_schedule() -> None:
    """Zhu & Gupta 2017, eq. 1: halfway there, 7/8 of the way is done."""
    cubic = Cubic(first=10, last=50, every=10)
    found = [cubic.value(step, 0.1, 0.9) for step in (0, 10, 20, 30, 50, 60)]
    assert found == pytest.approx([0.1, 0.1, 0.9 - 0.8 * 0.75**3, 0.1 + 0.8 * 7 / 8, 0.9, 0.9])
    assert [step for step in range(80) if cubic.due(step, after_last=False)] == [10, 20, 30, 40, 50]
    assert [step for step in range(80) if cubic.due(step, after_last=True)] == [10, 20, 30, 40, 50, 60, 70]


@pytest.mark.parametrize(("steps", "expected"), [(100, (10, 70)), (3, (0, 2)), (1, (0, 0))])
def test_the_schedule_ends_within_the_training(steps: int, expected: tuple[int, int]) -> None:
    cubic = over(steps, begin=0.1, end=0.7, every=10)
    assert (cubic.first, cubic.last) == expected
    assert any(cubic.due(step, False) and cubic.value(step, 0.0, 0.5) == 0.5 for step in range(steps))


@pytest.mark.parametrize("held", [True, False])
def test_zeros_meet_no_gradient_no_decay_and_no_momentum(held: bool) -> None:
    each = linear([[0.0, 1.0], [2.0, 0.0]])
    optimizer = torch.optim.AdamW([each.parameter], lr=0.1, weight_decay=0.1)
    with zeros_held([each] if held else []) as count:
        for _ in range(3):
            optimizer.zero_grad()
            each.module(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert count == 2 * held
    assert (each.weight == 0).tolist() == [[held, False], [False, held]]
    assert (optimizer.state[each.parameter]["exp_avg"] == 0).tolist() == [[held, False], [False, held]]
    each.parameter.sum().backward()
    assert bool((each.parameter.grad != 0).all()) is True  # the hold ends with its context
