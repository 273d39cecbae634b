"""How far neighbouring words are apart in a model, by their states or by where they look (Kim et al. 2020, "Are
Pre-trained Language Models Aware of Phrases?", https://arxiv.org/abs/2002.00737).

`cosine` is 1 less the cosine; the paper and its code take (cosine + 1) / 2, which is large for words that are alike.
`jensen_shannon` is the root of the divergence in nats. The paper gives the model no separators; here they are tokens as
others are, and a word's attention is the mean over its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

OF_STATES = ("cosine", "euclidean")
OF_ATTENTION = ("jensen_shannon", "hellinger")


def state_distances(words: Tensor) -> np.ndarray:
    """[words, width] -> float64 [2, words - 1], in the order of `OF_STATES`."""
    one, other = words[:-1].double(), words[1:].double()
    far = torch.linalg.vector_norm(one - other, dim=-1)
    return torch.stack([1 - F.cosine_similarity(one, other, dim=-1), far]).numpy()


def attention_distances(weights: Tensor, pieces: Sequence[Sequence[int]]) -> np.ndarray:
    """Attention [heads, tokens, tokens], and the tokens of each word -> float64 [2, heads, words - 1], in the order of
    `OF_ATTENTION`."""
    looks = torch.stack([weights[:, list(tokens)].mean(1) for tokens in pieces], dim=1).double()
    one, other = looks[:, :-1], looks[:, 1:]  # [heads, words - 1, tokens]
    middle, entropies = _entropy((one + other) / 2), _entropy(looks)
    divergence = middle - (entropies[:, :-1] + entropies[:, 1:]) / 2
    hellinger = torch.linalg.vector_norm(one.sqrt() - other.sqrt(), dim=-1) / 2**0.5
    return torch.stack([divergence.clamp(min=0).sqrt(), hellinger]).numpy()


def _entropy(looks: Tensor) -> Tensor:
    return torch.special.entr(looks).sum(-1)
