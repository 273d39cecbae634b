"""The length of labels in an online code (Voita and Titov 2020, section 3.2.1); see `probe/probes/mdl.py`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from probe.classifiers import Classifier, fit_classifiers, standardise

if TYPE_CHECKING:
    from torch import Tensor

SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
FEWEST = 10  # rows to fit on
STRENGTHS = (0.001, 0.01, 0.1, 1.0)


def portions(rows: int) -> list[int]:
    """Where the portions end: the paper's shares of the rows, from the first that is at least FEWEST rows."""
    ends = [round(share * rows) for share in SHARES]
    return [end for end in ends if end >= min(FEWEST, rows)]


def obstacle(rows: int) -> str | None:
    """Why no code of so many rows says anything, or None: with one portion nothing is fitted."""
    if len(portions(rows)) > 1:
        return None
    return f"{rows} rows are one portion, so nothing is fitted; needs {2 * FEWEST}"


def online_bits(states: Tensor, label_sets: Sequence[np.ndarray], classes: int) -> list[float]:
    """Bits of each label set, int64 [rows] below `classes`, sent in the order of `states` [rows, width].

    How strongly a probe should trust the states is not known beforehand. The code is therefore the even mixture of
    those with each of STRENGTHS (C of the logistic regression), -log2 mean_j 2^-bits_j: at most log2(4) = 2 bits longer
    than the shortest of them, without a look ahead."""
    each = [bits_with(strength, states, label_sets, classes) for strength in STRENGTHS]
    return (np.log2(len(STRENGTHS)) - np.logaddexp2.reduce(-np.array(each))).tolist()


def bits_with(strength: float, states: Tensor, label_sets: Sequence[np.ndarray], classes: int) -> np.ndarray:
    """As `online_bits`, with one strength."""
    ends = portions(len(states))
    bits = np.full(len(label_sets), ends[0] * np.log2(classes))
    for start, end in pairwise(ends):
        before, now = standardise(states[:start], states[start:end])
        fits = fit_classifiers(before, [labels[:start] for labels in label_sets], strength)
        given = zip(fits, label_sets, strict=True)
        bits += [_bits(fit, now, labels[start:end], start, classes) for fit, labels in given]
    return bits


def _bits(fit: Classifier, states: Tensor, labels: np.ndarray, seen: int, classes: int) -> float:
    """-log2 of the mixed probabilities (seen p + 1) / (seen + classes), where p is 0 for a class not seen."""
    probabilities = np.zeros((len(labels), classes))
    probabilities[:, fit.classes] = fit.log_probabilities(states).exp().numpy()
    given = probabilities[np.arange(len(labels)), labels]
    return float(-np.log2((seen * given + 1) / (seen + classes)).sum())
