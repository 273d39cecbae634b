"""Classifiers trained together, against scikit-learn's one by one."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from probe.classifiers import STRENGTH, Classifier, fit_classifiers, predict_together, standardise

CLASSES = (2, 4, 2, 7, 3)


def features(rows: int, width: int, seed: int = 0) -> torch.Tensor:
    """Standardised, with correlated columns of an uneven spectrum, as states have."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(rows, width)) * np.arange(1, width + 1) ** -0.7 @ rng.normal(size=(width, width))
    return torch.from_numpy(StandardScaler().fit_transform(mixed))


def labels(states: torch.Tensor, classes: int, seed: int, noise: float = 1.0) -> np.ndarray:
    """Labels that the states tell, but for noise. Names are not 0, 1, ..., and the classes are not of one size."""
    rng = np.random.default_rng(seed)
    scores = states.numpy() @ rng.normal(size=(states.shape[1], classes)) / 5
    return 10 + 3 * (scores + noise * rng.gumbel(size=scores.shape) + np.linspace(0, 1, classes)).argmax(1)


def one_by_one(states: torch.Tensor, truth: np.ndarray) -> LogisticRegression:
    return LogisticRegression(C=STRENGTH, tol=1e-9, max_iter=5000).fit(states.numpy(), truth)


@pytest.mark.parametrize(("rows", "width"), [(300, 20), (90, 140), (60, 60)], ids=["tall", "wide", "square"])
def test_each_is_the_minimum_that_scikit_learn_finds(rows: int, width: int) -> None:
    states = features(rows, width)
    sets = [labels(states, count, seed) for seed, count in enumerate(CLASSES)]
    for fit, truth in zip(fit_classifiers(states, sets, tolerance=1e-13), sets, strict=True):
        expected = one_by_one(states, truth)
        assert fit.converged
        assert fit.weights.numpy() == pytest.approx(expected.coef_, abs=1e-5)
        assert fit.intercepts.numpy() == pytest.approx(expected.intercept_, abs=1e-5)
        assert fit.log_probabilities(states).exp().numpy() == pytest.approx(expected.predict_proba(states), abs=1e-5)
        assert (fit.predict(states) == expected.predict(states)).all()


def test_float32_at_the_default_tolerance_gives_the_same_accuracies() -> None:
    states = features(700, 48, seed=3)
    sets = [labels(states, count, seed, noise=0.3) for seed, count in enumerate(CLASSES)]
    train, test = states[:400], states[400:]
    fits = fit_classifiers(train.float(), [truth[:400] for truth in sets])
    for fit, truth in zip(fits, sets, strict=True):
        expected = one_by_one(train, truth[:400]).score(test, truth[400:])
        assert fit.weights.dtype == torch.float32
        assert fit.converged
        assert (fit.predict(test.float()) == truth[400:]).mean() == pytest.approx(expected, abs=0.005)
        assert expected > 1.5 / len(fit.classes)  # there was something to learn


def test_company_changes_nothing() -> None:
    """A label set alone gives what it gives among others, and each set gets its own."""
    states = features(200, 30)
    sets = [labels(states, count, seed) for seed, count in enumerate(CLASSES)]
    for fit, truth in zip(fit_classifiers(states, sets, tolerance=1e-12), sets, strict=True):
        (alone,) = fit_classifiers(states, [truth], tolerance=1e-12)
        assert fit.classes.tolist() == sorted(set(truth))
        assert fit.weights.numpy() == pytest.approx(alone.weights.numpy(), abs=1e-5)


def test_the_same_again_to_the_bit_and_predictions_together_are_those_of_each() -> None:
    states = features(200, 30).float()
    sets = [labels(states, count, seed) for seed, count in enumerate(CLASSES)]
    first, again = fit_classifiers(states, sets), fit_classifiers(states, sets)
    assert all(torch.equal(one.weights, two.weights) for one, two in zip(first, again, strict=True))
    for fit, named in zip(first, predict_together(first, states), strict=True):
        assert (named == fit.predict(states)).all()


@pytest.mark.parametrize("strength", [1e-4, 1.0, 100.0])
def test_it_converges_at_any_strength_also_where_the_classes_are_separable(strength: float) -> None:
    states = features(120, 40)
    truth = labels(states, 3, 1, noise=0.0)
    (fit,) = fit_classifiers(states, [truth], strength, tolerance=1e-9, most_steps=2000)
    expected = LogisticRegression(C=strength, tol=1e-9, max_iter=9000).fit(states.numpy(), truth)
    assert fit.converged
    assert fit.log_probabilities(states).exp().numpy() == pytest.approx(expected.predict_proba(states), abs=2e-3)


def test_a_fit_that_was_stopped_says_so() -> None:
    states = features(200, 30)
    (fit,) = fit_classifiers(states, [labels(states, 4, 1)], tolerance=1e-12, most_steps=2)
    assert (fit.steps, fit.converged) == (2, False)


def test_one_class_is_always_named_and_does_not_disturb_the_others() -> None:
    states = features(50, 5)
    constant, other = np.full(50, 7), labels(states, 2, 1)
    fits = fit_classifiers(states, [constant, other, constant])
    assert [each.tolist() for each in predict_together(fits, states[:3])][::2] == [[7, 7, 7]] * 2
    assert fits[0].log_probabilities(states).eq(0).all()
    assert (fits[1].predict(states) == one_by_one(states, other).predict(states)).mean() > 0.97
    (alone,) = fit_classifiers(states, [constant])
    assert isinstance(alone, Classifier)
    assert alone.predict(states).tolist() == [7] * 50


def test_labels_without_relation_to_the_features_get_small_weights_and_the_class_shares() -> None:
    rng = np.random.default_rng(0)
    states, truth = features(4000, 4), rng.choice(3, size=4000, p=[0.6, 0.3, 0.1])
    (fit,) = fit_classifiers(states, [truth])
    assert fit.log_probabilities(states).exp().mean(0).numpy() == pytest.approx(np.bincount(truth) / 4000, abs=1e-3)
    assert fit.weights.abs().max() < 0.1


def test_standardising_uses_the_training_rows_and_keeps_constant_dimensions_finite() -> None:
    train, test = standardise(torch.tensor([[0.0, 5], [2, 5]]), torch.tensor([[4.0, 6]]))
    assert train.tolist() == [[-1, 0], [1, 0]]
    assert test.tolist() == [[3, 1]]


def test_standardising_is_that_of_scikit_learn() -> None:
    raw = torch.randn(50, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 4 + 100
    scaler = StandardScaler().fit(raw[:30].numpy())
    train, test = standardise(raw[:30], raw[30:])
    assert train.numpy() == pytest.approx(scaler.transform(raw[:30].numpy()))
    assert test.numpy() == pytest.approx(scaler.transform(raw[30:].numpy()))
