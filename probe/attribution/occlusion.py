"""Occlusion: how much the target's logit falls when one word is covered (Zeiler & Fergus 2014; Li et al. 2016).

The pieces of the word give way to the tokenizer's mask token, or to its unknown token where it has no mask, so that the
other words keep their places. Where the unknown token also ends or pads texts, as GPT-2's does, the pieces are left
out. Needs logits alone, so it works on graphs too, 8-bit ones included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from assay.core.model.predict import TokenPredictor
    from probe.attribution.readings import Reading


def cover_of(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token that covers a piece; None where pieces are left out."""
    structural = {tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id}
    candidates = (tokenizer.mask_token_id, tokenizer.unk_token_id)
    return next((token for token in candidates if token is not None and token not in structural), None)


def told_cover(tokenizer: PreTrainedTokenizerBase) -> str:
    """How a word is covered, in words."""
    token = cover_of(tokenizer)
    return "leaving it out" if token is None else str(tokenizer.convert_ids_to_tokens(token))


def occlusion(
    model: TokenPredictor, readings: Sequence[Reading], logits: np.ndarray, targets: np.ndarray
) -> list[np.ndarray]:
    """Of each text float64 [words]: the target's logit less that with the word covered; 0 for a word not read.

    `logits` [texts, labels] are those of the whole texts, `targets` [texts] the labels that are explained."""
    token = cover_of(model.encoder.tokenizer)
    asked = [reading.covered(word, token) for reading in readings for word in reading.read]
    answers = model.logits_of(asked).astype(np.float64)
    found, start = [], 0
    for reading, whole, target in zip(readings, logits.astype(np.float64), targets, strict=True):
        read = reading.read
        fall = np.zeros(len(reading.words))
        fall[read] = whole[target] - answers[start : start + len(read), target]
        found.append(fall)
        start += len(read)
    return found
