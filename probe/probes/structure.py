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
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from assay.core.metric import Metric
from probe.against_teacher import change_metric, with_teacher
from probe.by_sentence import share_interval
from probe.probe import Findings, ProbeContext
from probe.tree_reading import TreeReading
from probe.tree_scores import mean_by_length, right_edges, row_correlation, spanning_tree
from probe.treebank import Sentence
from probe.treebank_probe import TreebankProbe

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.shared_states import SharedStates
    from probe.syntax_distance import Told, Tree

FEWEST_TRAIN, FEWEST_TEST = 5, 2  # sentences


class StructureProbe(TreebankProbe):
    """States are mapped into `rank` dimensions. Sentences of one word have no tree to build and are passed over."""

    version: ClassVar[int] = 2
    trees: ClassVar[bool] = True
    fewest_words: ClassVar[int] = 2

    rank: PositiveInt = 32
    epochs: PositiveInt = 15

    def tiny(self) -> StructureProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16, "epochs": 2})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are those of the layer with the most true edges on the test sentences, and the difference of
        that share to the teacher's in its own best layer; `details` hold all layers."""
        parts = self.sentences(ctx)
        own, theirs = with_teacher(self, model, ctx, lambda of: self._examine(of, ctx, *parts))
        if own.skipped:
            return Findings(skipped=own.skipped)
        changes = own.changes(theirs) if theirs else []
        return Findings(_headline(own, theirs), own.told | {"teacher": changes})

    def _examine(self, model: Predictor, ctx: ProbeContext, *drawn: list[Sentence]) -> TreeReading:
        from probe.layer_pieces import LayerPieces
        from probe.syntax_distance import fit_maps, read_trees

        box = ctx.states.of(model)
        train, test = (_whole(box, part) for part in drawn)
        if len(train) < FEWEST_TRAIN or len(test) < FEWEST_TEST:
            need = f"needs {FEWEST_TRAIN} and {FEWEST_TEST}"
            return TreeReading(f"{len(train)} train and {len(test)} test sentences are whole in the model, {need}")
        states = [LayerPieces.read(box, [each.words for each in part]) for part in (train, test)]
        gold = [[_tree(each) for each in part] for part in (train, test)]
        maps = fit_maps(states[0], gold[0], self.rank, self.epochs, ctx.seed)
        told = list(read_trees(maps, states[1], len(test)))
        scores = [_layer(number, at, told, gold[1], test) for at, number in enumerate(box.numbers)]
        layers = [layer for layer, _ in scores]
        best = max(layers, key=lambda layer: layer["uuas"])
        details = {
            "layers": layers,
            "best_layer": best["layer"],
            "next_word_uuas": _of_next_words(gold[1], test),
            "n_train": len(train),
            "n_test": len(test),
            "left_out": [len(all_of_it) - len(kept) for all_of_it, kept in zip(drawn, (train, test), strict=True)],
        }
        right = {number: edges for number, (_, edges) in zip(box.numbers, scores, strict=True)}
        return TreeReading(None, details, right, [each.line for each in test])


def _whole(model: SharedStates, sentences: list[Sentence]) -> list[Sentence]:
    from probe.word_pieces import align, encoder_of

    pieces = align(encoder_of(model), [each.words for each in sentences]).pieces
    return [each for each, words in zip(sentences, pieces, strict=True) if all(words)]


def _tree(sentence: Sentence) -> Tree:
    from probe.syntax_distance import tree_of

    return tree_of([head for head in sentence.heads if head is not None], sentence.depths)


def _layer(
    number: int, position: int, told: list[Told], gold: list[Tree], sentences: list[Sentence]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """All scores of one layer; and of each sentence which of its edges are right."""
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
    scores = {
        "layer": number,
        "uuas": float(right.mean()),
        "low": low,
        "high": high,
        "edges": len(right),
        "distance_spearman": mean_by_length(close, lengths),
        "depth_spearman": mean_by_length(high_up, lengths),
        "root_accuracy": float(np.mean(roots)),
    }
    return scores, edges


def _of_next_words(gold: list[Tree], sentences: list[Sentence]) -> float:
    """UUAS of a tree in which each word is joined to the next."""
    hits, edges = 0, 0
    for tree, sentence in zip(gold, sentences, strict=True):
        words = sentence.spoken
        true = spanning_tree(tree.distances.numpy(), words)
        hits += len(true & set(pairwise(words)))
        edges += len(true)
    return hits / edges


def _headline(own: TreeReading, theirs: TreeReading | None) -> list[Metric]:
    top = own.told["best_layer"]
    best = next(layer for layer in own.told["layers"] if layer["layer"] == top)
    n, change = best["edges"], []
    if theirs and not theirs.skipped:
        change = [change_metric("structure_change", own.change(top, theirs, theirs.told["best_layer"]))]
    return [
        Metric("structure_uuas", best["uuas"], "fraction", None, n, best["low"], best["high"]),
        *change,
        Metric("structure_best_layer", best["layer"], "layer", None, n),
        Metric("structure_distance_spearman", best["distance_spearman"], "correlation", None, n),
        Metric("structure_depth_spearman", best["depth_spearman"], "correlation", None, n),
    ]
