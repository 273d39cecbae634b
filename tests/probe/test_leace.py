"""The theorems of least-squares concept erasure, each beside what holds without it."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from probe.leace import Eraser, fit_leace, moved, random_eraser

CLASSES = [2, 3, 5]


def told(classes: int, rows: int = 400, width: int = 12, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Correlated states and labels that a linear probe reads from them."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, width)) @ rng.normal(size=(width, width)) + 3
    labels = ((states - 3) @ rng.normal(size=(width, classes)) + rng.gumbel(size=(rows, classes))).argmax(1)
    return torch.from_numpy(states), torch.from_numpy(labels)


def cross_covariance(states: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    hot = torch.nn.functional.one_hot(labels).double()
    return (states - states.mean(0)).T @ (hot - hot.mean(0)) / len(hot)


@pytest.mark.parametrize("classes", CLASSES)
def test_a_linear_probe_of_the_erased_states_is_at_the_majority_rate(classes: int) -> None:
    states, labels = told(classes)
    majority = labels.bincount().max() / len(labels)
    before = LogisticRegression(solver="newton-cholesky", tol=1e-9).fit(states, labels)
    erased = fit_leace(states, labels)(states)
    after = LogisticRegression(solver="newton-cholesky", tol=1e-9).fit(erased, labels)
    assert before.score(states, labels) > majority + 0.2
    assert after.score(erased, labels) == pytest.approx(majority)
    assert np.abs(after.coef_).max() < 1e-4 < np.abs(before.coef_).max()


@pytest.mark.parametrize("rows", [400, 8], ids=["more rows than dimensions", "fewer"])
def test_states_and_labels_do_not_covary_afterwards(rows: int) -> None:
    states, labels = told(3, rows)
    assert cross_covariance(states, labels).abs().max() > 0.1
    assert cross_covariance(fit_leace(states, labels)(states), labels).abs().max() < 1e-12


@pytest.mark.parametrize("classes", CLASSES)
def test_rank_is_the_classes_less_one_and_the_mean_stays(classes: int) -> None:
    states, labels = told(classes)
    eraser = fit_leace(states, labels)
    assert eraser.rank == classes - 1
    assert torch.linalg.matrix_rank(eraser(states) - states.mean(0)) == states.shape[1] - eraser.rank
    assert eraser(states).mean(0).numpy() == pytest.approx(states.mean(0).numpy())


def test_erasing_twice_is_erasing_once() -> None:
    states, labels = told(3)
    eraser = fit_leace(states, labels)
    once = eraser(states)
    assert eraser(once).numpy() == pytest.approx(once.numpy(), abs=1e-10)
    assert (once - states).abs().max() > 0.1


def test_no_projection_that_erases_the_same_moves_the_states_less() -> None:
    """Among them the orthogonal one, and oblique ones along directions drawn at random."""
    states, labels = told(3)
    least = fit_leace(states, labels)
    basis, _ = torch.linalg.qr(cross_covariance(states, labels)[:, : least.rank])
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randn(*basis.shape, generator=generator, dtype=torch.float64) for _ in range(20)]
    others = [Eraser(states.mean(0), torch.linalg.solve(along.T @ basis, along.T), basis) for along in [basis, *drawn]]
    for other in others:
        assert cross_covariance(other(states), labels).abs().max() < 1e-9
        assert moved(other, states) > moved(least, states) * 1.001


def test_labels_of_one_class_leave_the_states_as_they_are() -> None:
    states, labels = told(2)
    nothing = fit_leace(states, torch.zeros_like(labels))
    assert nothing.rank == 0
    assert torch.equal(nothing(states), states)
    assert moved(nothing, states) == 0 < moved(fit_leace(states, labels), states)


def test_a_direction_that_does_not_vary_is_left_alone() -> None:
    states, labels = told(2)
    states = torch.cat([states, torch.full((len(states), 2), 5.0, dtype=torch.float64)], 1)
    erased = fit_leace(states, labels)(states)
    assert erased[:, -2:].eq(5).all()
    assert cross_covariance(erased, labels).abs().max() < 1e-12


def test_the_mean_of_erased_tokens_is_the_erased_mean() -> None:
    states, labels = told(3)
    eraser = fit_leace(states, labels)
    tokens = states[:40].unflatten(0, (8, 5))  # [texts, tokens, width]
    assert eraser(tokens).mean(1).numpy() == pytest.approx(eraser(tokens.mean(1)).numpy())
    assert eraser(tokens.float()).dtype == torch.float32


def test_the_control_loses_as_many_directions_about_the_same_mean_and_leaves_the_concept() -> None:
    states, labels = told(3)
    eraser = fit_leace(states, labels)
    control = random_eraser(eraser.mean, eraser.rank, seed=1)
    assert control.rank == eraser.rank
    assert control(control(states)).numpy() == pytest.approx(control(states).numpy())
    assert control(eraser.mean[None]).numpy() == pytest.approx(eraser.mean[None].numpy())
    assert cross_covariance(control(states), labels).abs().max() > 0.1
    assert torch.equal(control.reads, random_eraser(eraser.mean, eraser.rank, seed=1).reads)
    assert not torch.equal(control.reads, random_eraser(eraser.mean, eraser.rank, seed=2).reads)
