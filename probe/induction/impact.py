"""How much one word matters to another, by taking it away: the change of a word's state in the last layer.

Masking (Wu et al. 2020, "Perturbed Masking", https://aclanthology.org/2020.acl-main.383): word i is masked, and the
impact of j on i is the Euclidean distance that its state moves when j is masked as well. The pieces of a word are
masked together, and its state is their mean; the released code takes the first piece. Every pair of words is a text of
its own, so n words cost n (n + 1) / 2 passes.

Deletion (Rosa and Marecek 2019, "Inducing Syntactic Trees from BERT Representations", https://arxiv.org/abs/1906.11511):
the impact of j on i is the distance that the state of i moves when j is left out, in n + 1 passes. Its mean over i is
the paper's measure: the lower, the more reducible a word.

Of a decoder above an encoder it is the state at the word's place, from which the word is to be named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from assay.core.errors import NotGiven

if TYPE_CHECKING:
    from assay.core.model.predict import TokenWhiteBox

TEXTS_A_PASS = 64


@dataclass(frozen=True)
class TokenizedWords:
    """A sentence as token ids, separators included, and of each word that is looked at the positions of its pieces."""

    ids: list[int]
    words: list[list[int]]

    def masked(self, places: Sequence[int], mask: int) -> TokenizedWords:
        """The sentence with those words masked; the words that are looked at are those alone."""
        chosen = [self.words[place] for place in places]
        covered = {at for word in chosen for at in word}
        return TokenizedWords([mask if at in covered else known for at, known in enumerate(self.ids)], chosen)

    def without(self, place: int) -> TokenizedWords:
        """The sentence without that word."""
        gone = self.words[place]
        ids = [known for at, known in enumerate(self.ids) if at not in gone]
        moved = [[at - sum(lost < at for lost in gone) for at in word] for word in self.words if word is not gone]
        return TokenizedWords(ids, moved)


def mask_of(model: TokenWhiteBox) -> int:
    """The id of the mask token; NotGiven where the tokenizer has none."""
    token = model.encoder.tokenizer.mask_token_id
    if token is None:
        raise NotGiven(f"{model.artifact.path.name}: its tokenizer has no mask token, which perturbed masking needs")
    return int(token)


def impact_by_masking(model: TokenWhiteBox, sentence: TokenizedWords) -> np.ndarray:
    """float64 [words, words]: at [i, j] the impact of j on i, 0 on the diagonal. NotGiven as from `mask_of`."""
    mask, n = mask_of(model), len(sentence.words)
    pairs = list(combinations_with_replacement(range(n), 2))
    states = final_states(model, [sentence.masked(sorted({i, j}), mask) for i, j in pairs])
    alone = {i: found[0] for (i, j), found in zip(pairs, states, strict=True) if i == j}
    impact = np.zeros((n, n))
    for (i, j), found in zip(pairs, states, strict=True):
        impact[i, j], impact[j, i] = _distance(found[0], alone[i]), _distance(found[-1], alone[j])
    return impact


def impact_by_deletion(model: TokenWhiteBox, sentence: TokenizedWords) -> np.ndarray:
    """float64 [words, words]: at [i, j] the impact of j on i, 0 on the diagonal."""
    n = len(sentence.words)
    whole, *others = final_states(model, [sentence, *(sentence.without(place) for place in range(n))])
    impact = np.zeros((n, n))
    for j, found in enumerate(others):
        stays = np.arange(n) != j
        impact[stays, j] = torch.linalg.vector_norm(found - whole[torch.from_numpy(stays)], dim=1).numpy()
    return impact


def final_states(model: TokenWhiteBox, sentences: Sequence[TokenizedWords]) -> list[Tensor]:
    """Of each sentence float64 [words, width]: in the last layer, the mean of each word's pieces."""
    found: dict[int, Tensor] = {}
    for batch in model.states_of([each.ids for each in sentences], TEXTS_A_PASS):
        starts = batch.mask.int().argmax(1).tolist()  # padding is at one end
        for row, start, states in zip(batch.rows, starts, batch.hidden[-1].double(), strict=True):
            words = [states[[start + at for at in word]].mean(0) for word in sentences[row].words]
            found[row] = torch.stack(words)
    return [found[row] for row in range(len(sentences))]


def _distance(one: Tensor, other: Tensor) -> float:
    return float(torch.linalg.vector_norm(one - other))
