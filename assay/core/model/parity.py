"""The parity gate: a graph must answer as the torch model it came from, on real rows, in several batch shapes.

Runs after export and after each change of the graph. The difference is stored with the artifact; beyond the stated
tolerance the step fails.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from assay.core.artifact import Artifact, is_image
from assay.core.errors import LimitError
from assay.core.model.predict import Predictor
from assay.core.stats import same_labels

# (batch, padded length): one row alone, an odd batch, a long padded one. None of them is the exporter's dummy (2, 16).
SHAPES: tuple[tuple[int, int | None], ...] = ((1, None), (5, 20), (2, 128))
ROWS = 12


@dataclass(frozen=True)
class Parity:
    """Differences of logits over all rows and shapes. `flips` counts rows whose predicted label, or set of labels,
    differs in any shape; a regression has none. `shapes` are [batch, tokens padded to at least], of images [batch]."""

    max_abs: float
    mean_abs: float
    flips: int
    rows: int
    shapes: list[list[int | None]]


def compare_logits(reference: Predictor, graph: Predictor, texts: list[str]) -> Parity:
    """Run both on the first rows of `texts` in every shape, padding cut to what the model allows."""
    texts = texts[:ROWS]
    differences, flipped = [], np.zeros(len(texts), dtype=bool)
    for batch, length in SHAPES:
        expected = reference.logits(texts, batch, length)
        given = graph.logits(texts, batch, length)
        differences.append(np.abs(expected - given))
        flipped |= ~same_labels(expected, given, reference.artifact.task)
    values = np.concatenate(differences)
    images = is_image(reference.artifact.task)
    shapes: list[list[int | None]] = [
        [batch] if images else [batch, length and min(length, reference.max_length)] for batch, length in SHAPES
    ]
    return Parity(float(values.max()), float(values.mean()), int(flipped.sum()), len(texts), shapes)


def require(parity: Parity, tolerance: float, source: Artifact) -> dict[str, Any]:
    """Facts to store; LimitError when the largest difference is beyond `tolerance` or not a number."""
    if not parity.max_abs <= tolerance:
        raise LimitError(
            f"the graph differs from {source.path.name} by {parity.max_abs:.3g} in its logits, more than the tolerance "
            f"{tolerance:g} ({parity.flips} of {parity.rows} rows change their label)"
        )
    return asdict(parity) | {"tolerance": tolerance}
