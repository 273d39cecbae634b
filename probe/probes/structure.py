"""Whether syntax trees can be read off as distances: the structural probe (Hewitt and Manning 2019,
https://aclanthology.org/N19-1419).

For each layer a linear map is sought under which the squared distance of two words is that in the sentence's tree, and
another under which a word's squared length is its depth (`probe/syntax_distance.py`). From the distances on other
sentences the least spanning tree is built: UUAS is the share of the true edges in it, without punctuation. Spearman's
correlations are averaged by sentence length from 5 to 50 words, and then over lengths. Beside them stands the UUAS of
joining each word to the next. Sentences with a word that is not whole in the model are left out and counted.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from probe.by_sentence import share_interval
from probe.numbered_lines import setting_file
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.tagged_words import drawn
from probe.tree_scores import mean_by_length, right_edges, row_correlation, spanning_tree
from probe.treebank import Sentence, read_treebank

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.shared_states import SharedStates
    from probe.syntax_distance import Told, Tree

FEWEST_TRAIN, FEWEST_TEST = 5, 2  # sentences


class StructureProbe(Probe):
    """`samples` sentences of the CoNLL-U file `train` fit the maps, `test_samples` of the file `test` score them."""

    needs: ClassVar[Needs] = "states"

    train: str = Field(min_length=1)
    test: str = Field(min_length=1)
    samples: PositiveInt = 1000
    test_samples: PositiveInt = 500
    rank: PositiveInt = 32
    epochs: PositiveInt = 15

    def inputs(self) -> list[Path]:
        return [setting_file(self.train, "structure.train"), setting_file(self.test, "structure.test")]

    def check(self) -> None:
        for path in self.inputs():
            read_treebank(path, trees=True)

    def tiny(self) -> StructureProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16, "epochs": 2})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are those of the layer with the most true edges on the test sentences; `details` hold all
        layers."""
        from probe.layer_pieces import LayerPieces
        from probe.syntax_distance import fit_maps, read_trees

        box = ctx.states.of(model)
        drawn_ones = self._sentences(ctx.seed)
        train, test = (_whole(box, part) for part in drawn_ones)
        if len(train) < FEWEST_TRAIN or len(test) < FEWEST_TEST:
            need = f"needs {FEWEST_TRAIN} and {FEWEST_TEST}"
            return Findings(skipped=f"{len(train)} train and {len(test)} test sentences are whole in the model, {need}")
        states = [LayerPieces.read(box, [each.words for each in part]) for part in (train, test)]
        gold = [[_tree(each) for each in part] for part in (train, test)]
        maps = fit_maps(states[0], gold[0], self.rank, self.epochs, ctx.seed)
        told = list(read_trees(maps, states[1], len(test)))
        layers = [_layer(number, at, told, gold[1], test) for at, number in enumerate(box.numbers)]
        best = max(layers, key=lambda layer: layer["uuas"])
        details = {
            "layers": layers,
            "best_layer": best["layer"],
            "next_word_uuas": _of_next_words(gold[1], test),
            "n_train": len(train),
            "n_test": len(test),
            "left_out": [len(all_of_it) - len(kept) for all_of_it, kept in zip(drawn_ones, (train, test), strict=True)],
        }
        return Findings(_headline(best), details)

    def _sentences(self, seed: int) -> list[list[Sentence]]:
        """Of two words at least: one word has no tree to build."""
        counts = (self.samples, self.test_samples)
        parts = [
            [each for each in read_treebank(path, trees=True).sentences if len(each.spoken) > 1]
            for path in self.inputs()
        ]
        return [[part[at] for at in drawn(len(part), n, seed)] for part, n in zip(parts, counts, strict=True)]


def _whole(model: SharedStates, sentences: list[Sentence]) -> list[Sentence]:
    from probe.word_pieces import align, encoder_of

    pieces = align(encoder_of(model), [each.words for each in sentences]).pieces
    return [each for each, words in zip(sentences, pieces, strict=True) if all(words)]


def _tree(sentence: Sentence) -> Tree:
    from probe.syntax_distance import tree_of

    return tree_of([head for head in sentence.heads if head is not None], sentence.depths)


def _layer(number: int, position: int, told: list[Told], gold: list[Tree], sentences: list[Sentence]) -> dict[str, Any]:
    """All scores of one layer."""
    distances, depths = [each.distances[position] for each in told], [each.depths[position] for each in told]
    spoken, lengths = [each.spoken for each in sentences], [len(each.words) for each in sentences]
    far, deep = ([getattr(tree, name).numpy() for tree in gold] for name in ("distances", "depths"))
    edges = [right_edges(*each) for each in zip(distances, far, spoken, strict=True)]
    owners = np.repeat(np.arange(len(edges)), [len(each) for each in edges])
    right = np.concatenate(edges)
    roots = [
        words[int(mine[words].argmin())] == int(own.argmin())
        for words, mine, own in zip(spoken, depths, deep, strict=True)
    ]
    close, high_up = (
        [row_correlation(*each) for each in zip(*pair, strict=True)] for pair in ((distances, far), (depths, deep))
    )
    low, high = share_interval(right, owners)
    return {
        "layer": number,
        "uuas": float(right.mean()),
        "low": low,
        "high": high,
        "edges": len(right),
        "distance_spearman": mean_by_length(close, lengths),
        "depth_spearman": mean_by_length(high_up, lengths),
        "root_accuracy": float(np.mean(roots)),
    }


def _of_next_words(gold: list[Tree], sentences: list[Sentence]) -> float:
    """UUAS of a tree in which each word is joined to the next."""
    hits, edges = 0, 0
    for tree, sentence in zip(gold, sentences, strict=True):
        words = sentence.spoken
        true = spanning_tree(tree.distances.numpy(), words)
        hits += len(true & set(pairwise(words)))
        edges += len(true)
    return hits / edges


def _headline(best: dict[str, Any]) -> list[Metric]:
    n = best["edges"]
    return [
        Metric("structure_uuas", best["uuas"], "fraction", None, n, best["low"], best["high"]),
        Metric("structure_best_layer", best["layer"], "layer", None, n),
        Metric("structure_distance_spearman", best["distance_spearman"], "correlation", None, n),
        Metric("structure_depth_spearman", best["depth_spearman"], "correlation", None, n),
    ]
