"""What one model's answers to some texts rest on, word by word, by every method that the model allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from assay.core.errors import NotGiven
from probe.attribution.occlusion import occlusion, told_cover
from probe.attribution.readings import Reading, read_words

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor, TokenPredictor, TorchPredictor
    from probe.attribution.embedding_path import Gradients

Baseline = Literal["pad", "mask", "zero"]
INTEGRATED, TIMES_INPUT, OCCLUSION = "integrated_gradients", "gradient_x_input", "occlusion"


@dataclass(frozen=True)
class Explained:
    """logits:  float32 [texts, labels];  targets: int [texts], the label whose logit is explained
    words:   method -> of each text float64 [words], above 0 where the word speaks for the target
    completeness: float64 [texts], relative errors of the integrated gradients; empty without them
    cover:   what occlusion puts in the place of a word"""

    readings: list[Reading]
    logits: np.ndarray
    targets: np.ndarray
    words: dict[str, list[np.ndarray]]
    cover: str
    completeness: np.ndarray = field(default_factory=lambda: np.zeros(0))


def explain(
    model: Predictor, texts: Sequence[str], labels: np.ndarray | None, baseline: Baseline, steps: int
) -> Explained:
    """The logit of each text's label is explained, or with no `labels` of the one that the model predicts.

    NotGiven from a model that does not show its tokenizer, or whose tokenizer does not tell offsets."""
    from assay.core.model.predict import TokenPredictor, TorchPredictor

    if not isinstance(model, TokenPredictor):
        raise NotGiven(f"{model.artifact.path.name} does not show its tokenizer, which single words need")
    readings = read_words(model.encoder, texts)
    logits = model.logits_of([reading.ids for reading in readings])
    targets = logits.argmax(axis=1) if labels is None else labels
    words = {OCCLUSION: occlusion(model, readings, logits, targets)}
    cover = told_cover(model.encoder.tokenizer)
    if not isinstance(model, TorchPredictor):
        return Explained(readings, logits, targets, words, cover)
    found = _gradients(model, readings, targets, baseline, steps)
    words = {
        INTEGRATED: [reading.sums(each.integrated) for reading, each in zip(readings, found, strict=True)],
        TIMES_INPUT: [reading.sums(each.times_input) for reading, each in zip(readings, found, strict=True)],
    } | words
    errors = np.array([each.completeness_error for each in found])
    return Explained(readings, logits, targets, words, cover, errors)


def _gradients(
    model: TorchPredictor, readings: Sequence[Reading], targets: np.ndarray, baseline: Baseline, steps: int
) -> list[Gradients]:
    """Those of each text alone: no padding, and all places of its way in one batch."""
    from assay.core.model.at_once import at_once, one_torch_thread_each
    from probe.attribution.embedding_path import EmbeddingPath

    path = EmbeddingPath(model.module, _start(model, baseline))

    def of_text(place: int) -> Gradients:
        reading = readings[place]
        return path.gradients(reading.ids, reading.of_words, int(targets[place]), steps)

    with path.open(), one_torch_thread_each() as workers:
        return list(at_once(of_text, range(len(readings)), workers))


def _start(model: TokenPredictor, baseline: Baseline) -> int | None:
    """The token that the baseline is made of; NotGiven where the tokenizer has none of that kind."""
    if baseline == "zero":
        return None
    tokenizer = model.encoder.tokenizer
    token = tokenizer.pad_token_id if baseline == "pad" else tokenizer.mask_token_id
    if token is None:
        raise NotGiven(
            f"{model.artifact.path.name}: its tokenizer has no {baseline} token to start from; set "
            f"attribution.baseline to {'mask or zero' if baseline == 'pad' else 'pad or zero'}"
        )
    return int(token)
