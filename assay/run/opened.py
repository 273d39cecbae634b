"""Predictors that stay open while a variant is looked at, and remember their answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.core.artifact import Artifact
from assay.core.data.images import content_of
from assay.core.manifest import key_of
from assay.core.model.predict import Predictor, open_predictor


class Opened:
    """Predictors by artifact, opened when first asked, answers on repeated texts remembered."""

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.predictors: dict[str, Predictor] = {}

    def __call__(self, artifact: Artifact) -> Predictor:
        if artifact.key not in self.predictors:
            self.predictors[artifact.key] = remembering(open_predictor(artifact, self.max_length))
        return self.predictors[artifact.key]

    def close_all_but(self, artifact: Artifact) -> None:
        """Free what is not needed any more."""
        self.predictors = {key: value for key, value in self.predictors.items() if key == artifact.key}


def remembering(predictor: Predictor) -> Predictor:
    """The same predictor, which answers a list of texts it has seen in the same layout without running again.

    Images are known by their content: another one under the same path is another one."""
    seen: dict[str, np.ndarray] = {}
    run, content = predictor.logits, content_of(predictor.artifact.task)

    def logits(texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        key = key_of([content(text) for text in texts], batch_size, pad_to)
        if key not in seen:
            seen[key] = run(texts, batch_size, pad_to)
        return seen[key].copy()

    predictor.logits = logits  # type: ignore[method-assign]
    return predictor
