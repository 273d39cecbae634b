"""How rare a model's tokens are, counted in the job's own training texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from assay.core.model.encoder import Encoder

MOST_TEXTS = 20_000
CHUNK = 1000  # texts whose tokens are in memory at a time


@dataclass(frozen=True)
class TokenCounts:
    """int64 [ids]: how often each token id occurs."""

    counts: Tensor

    def of(self, ids: Tensor) -> Tensor:
        """Counts like `ids`; 0 for those that never occurred."""
        if not len(self.counts):
            return torch.zeros_like(ids)
        return torch.where(ids < len(self.counts), self.counts[ids.clamp(max=len(self.counts) - 1)], 0)


def count_tokens(encoder: Encoder, texts: Sequence[str], seed: int) -> TokenCounts:
    """Counts in the texts, or in 20,000 of them drawn by chance."""
    drawn = np.sort(np.random.default_rng(seed).permutation(len(texts))[:MOST_TEXTS])
    total = np.zeros(0, np.int64)
    for start in range(0, len(drawn), CHUNK):
        ids = encoder.ids([texts[at] for at in drawn[start : start + CHUNK]])
        found = np.bincount(np.concatenate([np.array(row, np.int64) for row in ids]), minlength=len(total))
        found[: len(total)] += total
        total = found
    return TokenCounts(torch.from_numpy(total))


def rarest(counts: TokenCounts, ids: Tensor, words: Tensor) -> Tensor:
    """bool [..., tokens]: the tokens among `words` (bool) that no other of the row is rarer than."""
    found = counts.of(ids).masked_fill(~words, torch.iinfo(torch.int64).max)
    return words & (found == found.min(-1, keepdim=True).values)
