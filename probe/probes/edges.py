"""In which layers the relation of a word to its head is found: edge probing with a scalar mix (Tenney et al. 2019,
"BERT Rediscovers the Classical NLP Pipeline", https://arxiv.org/abs/1905.05950).

The pair is a word and its head in a CoNLL-U treebank, the label its relation (DEPREL without subtype). Probes that see
the layers 0 .. l, for every l, are trained together (`probe/edge_probes.py`). The expected layer is the mean layer at
which a pair becomes known, sum l D_l / sum D_l with D_l = score(0 .. l) - score(0 .. l - 1), their equation 4. The
centre of gravity is the mean layer in the mix of the probe that sees all, equation 2. Layers count as in the original
model, 0 is the embedding output. The control gives each type of dependent word a random relation.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import PositiveInt

from assay.core.metric import Metric
from probe.against_teacher import change_metric, with_teacher
from probe.by_sentence import share_interval
from probe.edge_reading import EdgeReading
from probe.probe import Findings, ProbeContext
from probe.treebank import UNKNOWN, Sentence
from probe.treebank_probe import TreebankProbe
from probe.word_tags import control_tags, most_frequent, share_by_word

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.edge_probes import EdgeProbes, Pairs
    from probe.layer_pieces import LayerPieces

FEWEST_TRAIN, FEWEST_TEST = 10, 5  # pairs


class EdgesProbe(TreebankProbe):
    """A pair's words become vectors of width `projection`, by way of `spans`; then comes a layer of width `hidden`."""

    version: ClassVar[int] = 2

    spans: Literal["attention", "mean"] = "attention"
    projection: PositiveInt = 64
    hidden: PositiveInt = 64
    epochs: PositiveInt = 5

    def tiny(self) -> EdgesProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16, "epochs": 1})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are the accuracy with all layers and its difference to the teacher's, the expected layer and
        the centre of gravity."""
        parts = self.sentences(ctx.seed)
        own, theirs = with_teacher(self, model, ctx, lambda of: self._examine(of, ctx, *parts))
        if own.skipped:
            return Findings(skipped=own.skipped)
        changes = own.changes(theirs) if theirs else []
        return Findings(_headline(own.told, changes), own.told | {"teacher": changes})

    def _examine(self, model: Predictor, ctx: ProbeContext, train: list[Sentence], test: list[Sentence]) -> EdgeReading:
        from probe.layer_pieces import LayerPieces

        box = ctx.states.of(model)
        states = [LayerPieces.read(box, [each.words for each in part]) for part in (train, test)]
        edges = [_edges(part, own) for part, own in zip((train, test), states, strict=True)]
        counts, names = [len(_all(part)) for part in edges], sorted({edge.label for edge in _all(edges[0])})
        if counts[0] < FEWEST_TRAIN or counts[1] < FEWEST_TEST or len(names) < 2:
            need = f"needs {FEWEST_TRAIN} and {FEWEST_TEST} of 2 relations"
            return EdgeReading(f"{counts[0]} train and {counts[1]} test pairs of {len(names)} relations, {need}")
        pairs = [_pairs(part, edges[0], names, ctx.seed) for part in edges]
        probes = self._trained(states[0], pairs[0], len(names), ctx.seed)
        told, right = _scores(probes, states[1], pairs[1], box.numbers)
        told |= _baselines(edges) | {"relations": len(names), "left_out": _left_out(states)}
        told |= {"n_train": counts[0], "n_test": counts[1]}
        places = [[edge.at for edge in part] for part in edges[1]]
        by_layer = dict(zip(box.numbers, right, strict=True))
        return EdgeReading.of(told, by_layer, places, [len(each.words) for each in test])

    def _trained(self, states: LayerPieces, pairs: list[Pairs], classes: int, seed: int) -> EdgeProbes:
        from probe.edge_probes import EdgeProbes, train_probes

        layers, width = len(states.files.widths), states.files.widths[0]
        shape = (layers, width, classes, self.projection, self.hidden)
        probes = EdgeProbes.start(*shape, self.spans, seed)
        train_probes(probes, states, pairs, self.epochs, seed)
        return probes


class Edge(NamedTuple):
    """A dependent word, its place `at` in the sentence, its relation, and the places of it and its head among the
    sentence's whole words."""

    at: int
    word: str
    label: str
    places: tuple[int, int]


def _edges(sentences: list[Sentence], states: LayerPieces) -> list[list[Edge]]:
    """Of each sentence the words, but the root, whose head and relation are known, both whole in the model."""
    return [_of_sentence(*each) for each in zip(sentences, states.words.pieces, strict=True)]


def _of_sentence(sentence: Sentence, pieces: list[list[int]]) -> list[Edge]:
    places = np.cumsum([bool(word) for word in pieces]) - 1
    return [
        Edge(at, sentence.words[at], label.partition(":")[0], (int(places[at]), int(places[head])))
        for at, (head, label) in enumerate(zip(sentence.heads, sentence.deprel, strict=True))
        if head is not None and head >= 0 and label != UNKNOWN and pieces[at] and pieces[head]
    ]


def _all(edges: list[list[Edge]]) -> list[Edge]:
    return [edge for sentence in edges for edge in sentence]


def _pairs(edges: list[list[Edge]], train: list[list[Edge]], names: list[str], seed: int) -> list[Pairs]:
    """Edges as numbers; a relation that training does not have is -1, which no probe names."""
    from probe.edge_probes import Pairs

    known, like = {name: at for at, name in enumerate(names)}, np.array([edge.label for edge in _all(train)])
    found = []
    for sentence in edges:
        places = np.array([edge.places for edge in sentence], dtype=np.int64).reshape(-1, 2)
        labels = np.array([known.get(edge.label, -1) for edge in sentence], dtype=np.int64)
        control = [known[str(name)] for name in control_tags([edge.word for edge in sentence], like, seed)]
        found.append(Pairs(places[:, 0], places[:, 1], labels, np.array(control, dtype=np.int64)))
    return found


def _scores(
    probes: EdgeProbes, states: LayerPieces, pairs: list[Pairs], numbers: tuple[int, ...]
) -> tuple[dict[str, Any], np.ndarray]:
    """Scores of the probes that see the layers up to each and what follows from them; and bool [layers, pairs]."""
    from probe.edge_probes import answers

    named = answers(probes, states, pairs)
    labels, control = (np.concatenate([getattr(part, name) for part in pairs]) for name in ("labels", "control"))
    owners = np.repeat(np.arange(len(pairs)), [len(part.labels) for part in pairs])
    right = named[:-1] == labels  # [layers, pairs]
    shares = probes.shares[-2].tolist()
    scores = right.mean(1).tolist()
    accuracy, control_accuracy = scores[-1], float((named[-1] == control).mean())
    told = {
        "accuracy": accuracy,
        "control": control_accuracy,
        "selectivity": accuracy - control_accuracy,
        "expected_layer": expected_layer(scores, numbers),
        "centre_of_gravity": sum(number * share for number, share in zip(numbers, shares, strict=True)),
        "layers": [
            {"layer": number, "cumulative": score, "low": low, "high": high, "weight": share}
            for number, score, share, (low, high) in zip(
                numbers, scores, shares, (share_interval(each, owners) for each in right), strict=True
            )
        ],
    }
    return told, right


def expected_layer(scores: list[float], numbers: tuple[int, ...]) -> float | None:
    """Mean number of the layer where the score comes from, given those with layers up to each; None without a gain."""
    gains = [after - before for before, after in pairwise(scores)]
    total = sum(gains)
    return sum(number * gain for number, gain in zip(numbers[1:], gains, strict=True)) / total if total > 0 else None


def _baselines(edges: list[list[list[Edge]]]) -> dict[str, float]:
    """The commonest relation, and the commonest of each dependent word."""
    (words, labels), (test_words, test_labels) = (
        ([edge.word for edge in _all(part)], [edge.label for edge in _all(part)]) for part in edges
    )
    common = most_frequent(labels)
    return {
        "majority": sum(label == common for label in test_labels) / len(test_labels),
        "most_frequent_relation": share_by_word(words, labels, test_words, test_labels),
    }


def _left_out(states: list[LayerPieces]) -> list[dict[str, int]]:
    return [{"vanished": each.words.vanished, "cut": each.words.cut} for each in states]


def _headline(found: dict[str, Any], changes: list[dict[str, Any]]) -> list[Metric]:
    last, n = found["layers"][-1], found["n_test"]
    return [
        Metric("edges_accuracy", found["accuracy"], "fraction", None, n, last["low"], last["high"]),
        *(change_metric("edges_change", change) for change in changes[-1:]),
        Metric("edges_selectivity", found["selectivity"], "fraction", None, n),
        Metric("edges_expected_layer", found["expected_layer"], "layer", None, n),
        Metric("edges_centre_of_gravity", found["centre_of_gravity"], "layer", None, n),
    ]
