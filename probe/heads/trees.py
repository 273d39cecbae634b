"""Syntax trees from attention (Htut et al. 2019, "Do Attention Heads in BERT Track Syntactic Dependencies?",
https://arxiv.org/abs/1911.12246), scored as undirected unlabelled attachment without punctuation.

Two trees a head: the maximum spanning tree of the symmetrised attention between words, and each word joined to the one
that it looks at most. The paper builds directed trees from the gold root; undirected ones need none. Beside them stand
joining each word to the next, and trees drawn by chance, in which two of n words are joined with probability 2 / n.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probe.by_sentence import share_interval
from probe.heads.word_attention import most_attended
from probe.treebank import Sentence


@dataclass
class TreeSums:
    """Edges found by sentence, int64 [heads] each; `edges`, `chained`, `by_chance`: those there are, those between
    neighbours, and those that a tree drawn by chance has."""

    spanning: list[Tensor] = field(default_factory=list)
    most: list[Tensor] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    chained: int = 0
    by_chance: float = 0.0

    def add(self, sentence: Sentence, words: Tensor, kept: list[int]) -> None:
        """One sentence: attention between its words [heads, words, words], the words that are `kept`."""
        gold = gold_edges(sentence, kept)
        if not len(gold):
            return
        among = words[:, kept][:, :, kept]
        self.spanning.append(found_edges(spanning_trees(among + among.transpose(1, 2)), gold))
        self.most.append(found_edges(most_attended(among), gold))
        self.edges.append(len(gold))
        self.chained += int(((gold[:, 0] - gold[:, 1]).abs() == 1).sum())
        self.by_chance += len(gold) * 2 / len(kept)

    def of_heads(self) -> list[dict[str, float]]:
        """Both scores of each head."""
        total = sum(self.edges)
        scores = (torch.stack(found).sum(0) / total for found in (self.spanning, self.most))
        return [
            {"uuas": one, "uuas_most": other} for one, other in zip(*(each.tolist() for each in scores), strict=True)
        ]

    def told(self) -> dict[str, Any]:
        """The baselines, and the best head's place among the heads and score with a 95 % interval over sentences."""
        total, found = sum(self.edges), torch.stack(self.spanning)  # [sentences, heads]
        best = int(found.sum(0).argmax())
        right, owners = _one_by_one(found[:, best].numpy(), np.array(self.edges))
        low, high = share_interval(right, owners)
        best_of_all = {"place": best, "uuas": float(right.mean()), "low": low, "high": high}
        chance = {"next_word_uuas": self.chained / total, "random_uuas": self.by_chance / total}
        return {"best": best_of_all, **chance, "edges": total, "sentences": len(self.edges)}


def gold_edges(sentence: Sentence, kept: list[int]) -> Tensor:
    """int64 [edges, 2]: dependent and head as positions among the words `kept`, for pairs that are both kept."""
    place = {word: at for at, word in enumerate(kept)}
    pairs = [(at, place[head]) for word, at in place.items() if (head := sentence.heads[word]) in place]
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


def found_edges(joined: Tensor, gold: Tensor) -> Tensor:
    """[heads]: how many of `gold` [edges, 2] are among those from each word to `joined` [heads, words], -1 for none."""
    one, other = gold.unbind(1)
    return ((joined[:, one] == other) | (joined[:, other] == one)).sum(1)


def spanning_trees(weights: Tensor) -> Tensor:
    """Maximum spanning trees of symmetric weights [trees, words, words] (Prim, all trees at once).

    int64 [trees, words]: the word that each was joined to; -1 for the first, from which the tree grows."""
    trees, n, _ = weights.shape
    each, joined = torch.arange(trees), torch.zeros(trees, n, dtype=torch.bool)
    nearest, most = torch.zeros(trees, n, dtype=torch.int64), weights[:, 0].clone()
    new = torch.zeros(trees, dtype=torch.int64)
    for _ in range(n - 1):
        joined[each, new] = True
        new = most.masked_fill(joined, -torch.inf).argmax(1)
        offered = weights[each, new]  # [trees, words]
        closer = (offered > most) & ~joined
        closer[each, new] = False
        nearest[closer] = new[:, None].expand(-1, n)[closer]
        most = torch.where(closer, offered, most)
    nearest[:, 0] = -1
    return nearest


def _one_by_one(hits: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(bool [edges of all sentences], sentence of each) from the numbers found and there, by sentence."""
    owners = np.repeat(np.arange(len(edges)), edges)
    within = np.arange(len(owners)) - np.repeat(edges.cumsum() - edges, edges)
    return within < hits[owners], owners
