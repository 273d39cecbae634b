"""Token ids or pixels to time a model with: every row full, no padding, no text or image needed. Imports no torch and
no transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from assay.core.artifact import Artifact, is_image
from assay.core.model.image_settings import read_settings
from assay.core.model.images import PIXELS

SEED = 0


def timed_batch(artifacts: Iterable[Artifact], batch_size: int, length: int) -> dict[str, np.ndarray]:
    """What all `artifacts`, which are of one task, are timed with: token ids, or images of the size they take."""
    artifacts = list(artifacts)
    if not is_image(artifacts[0].task):
        return token_batch([artifact.config for artifact in artifacts], batch_size, length)
    shape = read_settings(artifacts[0].path).shape
    return {PIXELS: np.random.default_rng(SEED).standard_normal((batch_size, *shape), np.float32)}


def token_batch(configs: Iterable[Mapping[str, Any]], batch_size: int, length: int) -> dict[str, np.ndarray]:
    """int64 `input_ids` and `attention_mask`, both [batch_size, length], the same at every call.

    Ids are drawn from what all the `configs` (plain data of `config.json`) have in their vocabulary, without the ids
    they pad with or end a text with: in the middle of a row one would be taken for its end. A row ends as theirs do."""
    configs = list(configs)
    ids = np.arange(min(config["vocab_size"] for config in configs))
    ends = [config["eos_token_id"] for config in configs if isinstance(config.get("eos_token_id"), int)]
    padding = [config["pad_token_id"] for config in configs if config.get("pad_token_id") is not None]
    drawn = np.random.default_rng(SEED).choice(np.setdiff1d(ids, padding + ends), (batch_size, length))
    if ends:
        drawn[:, -1] = ends[0]
    return {"input_ids": drawn.astype(np.int64), "attention_mask": np.ones((batch_size, length), np.int64)}
