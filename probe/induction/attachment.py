"""Dependency trees from the impact of words on each other, against a treebank.

A word's head is sought among the words that have most impact on it: the arc from head to dependent scores the impact
of the head on the dependent. Three trees: the best `projective` one and the best of `any_shape`, both from the gold
root as in Wu et al. 2020, and the `undirected` spanning tree of the symmetrised impact, which needs no root. UUAS is
the share of the true edges that are found, UAS of those found from head to dependent; the root's own arc, which is
given, does not count, nor does punctuation. The released code takes a softmax of the impact before Eisner's algorithm;
here it is as it is.

Beside them stand each word hanging on the one before, or on the one after, and the mean over all trees with that root.
How much impact a word has on all others is held against its depth in the tree, and the first in that against the root.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probe.by_sentence import share_interval
from probe.heads.trees import found_edges, gold_edges, spanning_trees
from probe.induction.arborescence import arborescence
from probe.induction.eisner import eisner
from probe.tree_scores import row_correlation
from probe.treebank import Sentence

DIRECTED = {"projective": eisner, "any_shape": arborescence}
UNDIRECTED = "undirected"
BASELINES = ("word_before", "word_after", "random")


@dataclass
class AttachmentSums:
    """right: (tree, "uuas" or "uas") -> of each sentence which of its true edges are found, bool [edges], and of the
           random baseline the chance of each
    lines: of each sentence its line in the file;  roots: whether its word of most impact is its root
    depths: of each sentence Spearman's correlation of impact and depth, None where a side is constant"""

    right: dict[tuple[str, str], list[np.ndarray]] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    roots: list[bool] = field(default_factory=list)
    depths: list[float | None] = field(default_factory=list)

    def add(self, sentence: Sentence, kept: list[int], impact: np.ndarray) -> None:
        """One sentence, and the impact [i, j] of its j-th kept word on its i-th; it needs two words."""
        gold, deep = gold_edges(sentence, kept), np.array(sentence.depths)[kept]
        if not len(gold):
            return
        root = int(deep.argmin())  # the highest kept word, which is the root unless that is punctuation
        self.lines.append(sentence.line)
        self.roots.append(int(impact.sum(0).argmax()) == root)
        self.depths.append(row_correlation(impact.sum(0), deep))
        for tree, decode in DIRECTED.items():
            self._add_directed(tree, decode(impact.T, root), gold)
        both = torch.from_numpy(impact + impact.T)[None]
        self._add(UNDIRECTED, "uuas", _joined(spanning_trees(both)[0].numpy(), gold))
        places = np.arange(len(kept))
        self._add_directed("word_before", np.where(places > 0, places - 1, -1), gold)
        self._add_directed("word_after", np.where(places < len(kept) - 1, places + 1, -1), gold)
        undirected, directed = random_chances(gold, root, len(kept))
        self._add("random", "uuas", undirected)
        self._add("random", "uas", directed)

    def _add_directed(self, tree: str, heads: np.ndarray, gold: Tensor) -> None:
        self._add(tree, "uuas", _joined(heads, gold))
        self._add(tree, "uas", heads[gold[:, 0].numpy()] == gold[:, 1].numpy())

    def _add(self, tree: str, score: str, right: np.ndarray) -> None:
        self.right.setdefault((tree, score), []).append(right)

    def told(self) -> dict[str, Any]:
        """Each tree's scores with 95 % intervals over sentences, and those of the baselines."""
        trees = [self._told(tree) for tree in (*DIRECTED, UNDIRECTED)]
        chance = {
            f"{tree}_{score}": float(np.concatenate(self.right[tree, score]).mean())
            for tree in BASELINES
            for score in ("uuas", "uas")
        }
        known = [value for value in self.depths if value is not None]
        return {
            "trees": trees,
            "baselines": chance,
            "root_accuracy": float(np.mean(self.roots)),
            "depth_spearman": float(np.mean(known)) if known else None,
            "sentences": len(self.lines),
            "edges": self.edges,
        }

    @property
    def edges(self) -> int:
        """True edges of all sentences."""
        return sum(map(len, self.right.get((UNDIRECTED, "uuas"), [])))

    def _told(self, tree: str) -> dict[str, Any]:
        told: dict[str, Any] = {"tree": tree}
        for score in ("uuas", "uas"):
            parts = self.right.get((tree, score))
            if parts:
                right = np.concatenate(parts)
                low, high = share_interval(right, np.repeat(np.arange(len(parts)), [len(part) for part in parts]))
                told |= {score: float(right.mean()), f"{score}_low": low, f"{score}_high": high}
        return told


def random_chances(gold: Tensor, root: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """([edges], [edges]): how many of all trees over n words with that root have each of `gold` [edges, 2: dependent,
    head] in either direction, and in its own. Two words are joined in 2 / n of all trees, below the root always from
    it, else as often the one way as the other."""
    either = np.full(len(gold), 2 / n)
    return either, np.where(gold[:, 1].numpy() == root, either, either / 2)


def _joined(heads: np.ndarray, gold: Tensor) -> np.ndarray:
    """bool [edges]: which of `gold` [edges, 2] the tree has in either direction."""
    return np.array([bool(found_edges(torch.from_numpy(heads)[None], edge[None])) for edge in gold])
