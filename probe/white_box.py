"""Models that show what happens inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.errors import NotGiven

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor, WhiteBox


def as_white_box(model: Predictor) -> WhiteBox:
    """`model`, known to give hidden states; NotGiven for one that gives logits only, such as an ONNX graph."""
    from assay.core.model.predict import WhiteBox

    if not isinstance(model, WhiteBox):
        raise NotGiven(f"{model.artifact.path.name} gives logits only, this probe reads states: examine torch weights")
    return model
