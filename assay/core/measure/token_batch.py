"""Token ids to time a model with: every row full, no padding, no text needed. Imports no torch and no transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from assay.core.model.anatomy import family_of

SEED = 0


def token_batch(configs: Iterable[Mapping[str, Any]], batch_size: int, length: int) -> dict[str, np.ndarray]:
    """int64 `input_ids` and `attention_mask`, both [batch_size, length], the same at every call.

    Ids are drawn from what all the `configs` (plain data of `config.json`) have in their vocabulary, without the ids
    they pad with: a padding id in the middle of a row would be taken for its end."""
    configs = list(configs)
    ids = np.arange(min(config["vocab_size"] for config in configs))
    padding = [config["pad_token_id"] for config in configs if config.get("pad_token_id") is not None]
    drawn = np.random.default_rng(SEED).choice(np.setdiff1d(ids, padding), (batch_size, length))
    return {"input_ids": drawn.astype(np.int64), "attention_mask": np.ones((batch_size, length), np.int64)}


def longest_input(config: Mapping[str, Any]) -> int:
    """Number of tokens the model has positions for."""
    return config["max_position_embeddings"] - family_of(config["model_type"]).first_position
