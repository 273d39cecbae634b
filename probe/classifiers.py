"""Linear classifiers trained together: many sets of labels on the same rows, one pass of matrix products for them all.

Each is the logistic regression of scikit-learn's `LogisticRegression(C=strength)`: it minimises

    C sum_i loss_i + |W|^2 / 2,     loss_i = -log p(label_i),

with the intercept free of the penalty; two classes have one output, more classes a softmax with one output each. The
minimum is the same, the way there shorter. All label sets share one Cholesky factor of the Hessian at a constant
probability, C c X'X + I = L L'. In the weights V = L'W the problem is nearly round (Boehning 1992 bounds the Hessian of
a softmax in the same way), so that L-BFGS needs a few steps instead of dozens, and a set of labels costs only its share
of two matrix products a step. With fewer rows than dimensions, X is first turned to the span of its rows by a QR
factorisation, which loses nothing: the penalty keeps the weights in that span.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

STRENGTH = 0.01  # C: on a few hundred rows weaker regularisation memorises them and scores lower on new ones
TOLERANCE = 3e-5  # nats a row above the minimum: no accuracy moves by more than a few rows in a thousand
MOST_STEPS = 100


@dataclass(frozen=True)
class Classifier:
    """classes:    [k], ascending
    weights:    [outputs, width]: one output for two classes, the logit of the second; none for one class; else k
    intercepts: [outputs]
    steps:      of the minimiser;  converged: whether they led to the minimum, within the tolerance"""

    classes: np.ndarray
    weights: Tensor
    intercepts: Tensor
    steps: int
    converged: bool

    def log_probabilities(self, features: Tensor) -> Tensor:
        """[rows, width] -> [rows, k]."""
        return self._by_class(features @ self.weights.T + self.intercepts).log_softmax(1)

    def predict(self, features: Tensor) -> np.ndarray:
        """[rows, width] -> the most probable class of each row, [rows]."""
        return self.named(features @ self.weights.T + self.intercepts)

    def named(self, outputs: Tensor) -> np.ndarray:
        """The most probable class [rows] where the outputs are [rows, outputs]."""
        return self.classes[self._by_class(outputs).argmax(1).numpy()]

    def _by_class(self, outputs: Tensor) -> Tensor:
        """[rows, outputs] -> [rows, k]: the first of one or two classes has no output of its own, but 0."""
        import torch

        first = outputs.new_zeros(len(outputs), 1 if len(self.classes) <= 2 else 0)
        return torch.cat([first, outputs], 1)


def fit_classifiers(
    features: Tensor,
    label_sets: Sequence[np.ndarray],
    strength: float = STRENGTH,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
) -> list[Classifier]:
    """One classifier a label set, in their order. `features` float [rows, width], standardised; `label_sets` hold
    labels of these rows, [rows] each.

    The precision is that of the features. The same input gives the same result on the same number of threads. A set of
    one class gives a classifier that always names it."""
    coded = [np.unique(labels, return_inverse=True) for labels in label_sets]
    several = [place for place, (classes, _) in enumerate(coded) if len(classes) > 1]
    several.sort(key=lambda place: len(coded[place][0]))  # those of one size side by side
    found = {place: _constant(classes, features) for place, (classes, _) in enumerate(coded)}
    if several:
        space = _Space.of(features, strength, _curvature([len(coded[place][0]) for place in several]))
        found |= zip(several, space.fit([coded[place] for place in several], tolerance, most_steps), strict=True)
    return [found[place] for place in range(len(coded))]


def predict_together(classifiers: Sequence[Classifier], features: Tensor) -> list[np.ndarray]:
    """What `predict` of each gives for [rows, width], by one matrix product for all of them."""
    import torch

    joint = torch.cat([each.weights for each in classifiers])
    logits = (features @ joint.T).split([len(each.weights) for each in classifiers], 1)
    return [each.named(part + each.intercepts) for each, part in zip(classifiers, logits, strict=True)]


def standardise(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Both [rows, width] shifted and scaled so that `train` has mean 0 and deviation 1 in each dimension that varies by
    more than rounding."""
    mean = train.mean(0)
    centred = train - mean
    deviation = centred.square().mean(0).sqrt()
    scale = deviation.where(deviation > 1e-6 * mean.abs(), 1.0)
    return centred / scale, (test - mean) / scale


def _curvature(counts: list[int]) -> float:
    """c: mean over label sets of the Hessian's size in the logits where all classes are equally probable."""
    sizes = [1 / count if count > 2 else 0.25 for count in counts]
    return sum(sizes) / len(sizes)


def _constant(classes: np.ndarray, features: Tensor) -> Classifier:
    """Always names the first class."""
    return Classifier(classes[:1], features.new_zeros(0, features.shape[1]), features.new_zeros(0), 0, True)


def _targets(classes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """bool [outputs, rows]: the class of each row; of two classes the second alone."""
    hot = np.arange(len(classes))[:, None] == places
    return hot[1:] if len(classes) == 2 else hot


@dataclass(frozen=True)
class _Space:
    """Features in the coordinates of the fit.

    whitened: [p + 1, rows], the last what became of the intercept's ones; factor: L', upper triangular [p + 1, p + 1];
    span: [width, p], orthonormal, or None where p is the width"""

    whitened: Tensor
    factor: Tensor
    span: Tensor | None
    strength: float
    curvature: float

    @classmethod
    def of(cls, features: Tensor, strength: float, curvature: float) -> _Space:
        """The space of standardised features [rows, width]."""
        import torch

        rows, width = features.shape
        span, inner = None, features.T
        if rows < width:
            span, inner = torch.linalg.qr(features.T)
        inner = torch.cat([inner, torch.ones_like(inner[:1])])  # [p + 1, rows]
        hessian = strength * curvature * (inner @ inner.T)
        hessian.diagonal()[:-1] += 1
        factor = torch.linalg.cholesky(hessian, upper=True)
        whitened = torch.linalg.solve_triangular(factor.T, inner, upper=False)
        return cls(whitened.contiguous(), factor, span, strength, curvature)

    def fit(
        self, coded: Sequence[tuple[np.ndarray, np.ndarray]], tolerance: float, most_steps: int
    ) -> Iterator[Classifier]:
        """Of label sets, each (classes, position of each row's class)."""
        import torch

        from probe.lbfgs import Problems, minimise

        targets = [_targets(*labels) for labels in coded]
        sizes = [len(part) for part in targets]
        every = torch.from_numpy(np.concatenate(targets)).to(self.whitened)
        found = minimise(Problems(self.whitened, every, sizes, self.strength, self.curvature), tolerance, most_steps)
        weights, intercepts = self._in_features(found.weights)
        parts = (part.split(sizes) for part in (weights, intercepts, found.steps, found.gap <= tolerance))
        for (classes, _), mine, free, steps, done in zip(coded, *parts, strict=True):
            yield Classifier(classes, mine, free, int(steps[0]), bool(done[0]))

    def _in_features(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """(weights [outputs, width], intercepts [outputs]) from whitened ones [outputs, p + 1]."""
        import torch

        plain = torch.linalg.solve_triangular(self.factor, weights.T, upper=True).T
        inner, intercepts = plain[:, :-1], plain[:, -1]
        return inner if self.span is None else inner @ self.span.T, intercepts
