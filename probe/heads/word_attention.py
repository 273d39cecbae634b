"""Attention between words, from that between their pieces: a word receives what its pieces receive together, and gives
the mean of what its pieces give (Clark et al. 2019, section 4.1). What goes to separators is left out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def word_attention(weights: Tensor, pieces: Sequence[Sequence[int]]) -> Tensor:
    """[heads, tokens, tokens], and the tokens of each word -> [heads, words, words]; each word needs a token."""
    member = torch.zeros(len(pieces), weights.shape[-1])
    for word, tokens in enumerate(pieces):
        member[word, list(tokens)] = 1
    return (member / member.sum(1, keepdim=True)) @ weights @ member.T


def most_attended(words: Tensor) -> Tensor:
    """[heads, words]: the other word that each looks at most, of several the first; -1 where it looks at no other."""
    others = words.masked_fill(torch.eye(words.shape[-1], dtype=torch.bool), -1)
    most = others.max(-1)
    return torch.where(most.values > 0, most.indices, -1)
