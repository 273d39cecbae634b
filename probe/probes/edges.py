"""In which layers it is found what a word is to its head, or what spans of words are: edge probing with a scalar mix
(Tenney et al. 2019, "BERT Rediscovers the Classical NLP Pipeline", https://arxiv.org/abs/1905.05950).

A target is one span of words (an entity, a constituent) or two (a predicate and its argument, two mentions) with a
label, from a file of spans; or a word and its head in a CoNLL-U treebank with its relation. Probes that see the layers
0 .. l, for every l, are trained together (`probe/edge_probes.py`). The expected layer is the mean layer at which a
target becomes known, sum l D_l / sum D_l with D_l = score(0 .. l) - score(0 .. l - 1), their equation 4. The centre of
gravity is the mean layer in the mix of the probe that sees all, equation 2. Layers count as in the original model, 0 is
the embedding output. Scores are accuracies; the paper asks yes-or-no questions and has micro-averaged F1. The control
gives each type of first span, such as each dependent word, a random label.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import PositiveInt

from assay.core.errors import SettingError
from assay.core.metric import Metric
from probe.against_teacher import change_metric, with_teacher
from probe.by_sentence import share_interval
from probe.edge_reading import EdgeReading
from probe.edge_targets import AskedTargets, NumberedTargets, TargetSentence, baselines, numbered, numbers_of, of_tree
from probe.probe import Findings, ProbeContext
from probe.span_files import is_span_file, read_spans, sides_of
from probe.tagged_words import drawn
from probe.treebank_probe import TreebankProbe

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.edge_probes import EdgeProbes
    from probe.layer_pieces import LayerPieces

FEWEST_TRAIN, FEWEST_TEST = 10, 5  # targets


class EdgesProbe(TreebankProbe):
    """`train` and `test` may also be files of spans. A target's spans become vectors of width `projection`, by way of
    `spans`; then comes a layer of width `hidden`."""

    version: ClassVar[int] = 3

    spans: Literal["attention", "mean"] = "attention"
    projection: PositiveInt = 64
    hidden: PositiveInt = 64
    epochs: PositiveInt = 5

    def tiny(self) -> EdgesProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16, "epochs": 1})

    def check(self) -> None:
        if self._of_spans():
            self._span_files()
        else:
            super().check()

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are the accuracy with all layers and its difference to the teacher's, the expected layer and
        the centre of gravity."""
        parts = self._targets(ctx)
        own, theirs = with_teacher(self, model, ctx, lambda of: self._examine(of, ctx, *parts))
        if own.skipped:
            return Findings(skipped=own.skipped)
        told = own.told | {"teacher": own.changes(theirs) if theirs else []}
        return Findings(_headline(own.told, own.change(theirs) if theirs else None), told)

    def _targets(self, ctx: ProbeContext) -> list[list[TargetSentence]]:
        """Of the sentences drawn for training and for testing."""
        if not self._of_spans():
            return [[of_tree(each) for each in part] for part in self.sentences(ctx)]
        counts = (self.samples, self.test_samples)
        return [
            [every[at] for at in drawn(len(every), count, ctx.seed)]
            for every, count in zip(self._span_files(), counts, strict=True)
        ]

    def _of_spans(self) -> bool:
        """Whether both files are of spans; SettingError where one is."""
        train, test = is_span_file(self.train), is_span_file(self.test)
        if train != test:
            said = "JSONL of spans" if test else "no JSONL of spans"
            raise SettingError("edges.test", f"{self.test} is {said}, edges.train is {self.train}; name two of a kind")
        return test

    def _span_files(self) -> list[list[TargetSentence]]:
        """All of both files. InputError as of `read_spans`, and where one asks for a span, the other for pairs."""
        train, test = (read_spans(path) for path in self.inputs())
        if sides_of(train) != sides_of(test):
            said = f"{self.test} has {sides_of(test)} spans a target, edges.train {sides_of(train)}"
            raise SettingError("edges.test", f"{said}; name two of a kind")
        return [train, test]

    def _examine(self, model: Predictor, ctx: ProbeContext, *parts: list[TargetSentence]) -> EdgeReading:
        from probe.layer_pieces import LayerPieces

        box = ctx.states.of(model)
        if not all(parts):
            return EdgeReading("no sentence to train on or to test on")
        states = [LayerPieces.read(box, [each.words for each in part]) for part in parts]
        train, test = (AskedTargets.of(part, own.words.pieces) for part, own in zip(parts, states, strict=True))
        names, counts = sorted({target.label for target in train.every}), [len(train.every), len(test.every)]
        if counts[0] < FEWEST_TRAIN or counts[1] < FEWEST_TEST or len(names) < 2:
            need = f"needs {FEWEST_TRAIN} and {FEWEST_TEST} of 2 labels"
            return EdgeReading(f"{counts[0]} train and {counts[1]} test targets of {len(names)} labels, {need}")
        if not any(target.label in names for target in test.every):
            return EdgeReading(f"no label of a test target is in training, which has {', '.join(names[:5])}")
        numbers = [numbered(asked, train.every, names, ctx.seed) for asked in (train, test)]
        probes = self._trained(states[0], numbers[0], len(names), ctx.seed)
        told, right = _scores(probes, states[1], numbers[1], box.numbers)
        told |= baselines(train.every, test.every) | {
            "relations": len(names),
            "n_train": counts[0],
            "n_test": counts[1],
        }
        told["left_out"] = [_left_out(*each) for each in zip(parts, (train, test), states, strict=True)]
        return EdgeReading.of(told, dict(zip(box.numbers, right, strict=True)), test.whole)

    def _trained(self, states: LayerPieces, targets: list[NumberedTargets], classes: int, seed: int) -> EdgeProbes:
        from probe.edge_probes import EdgeProbes, train_probes

        layers, width = len(states.files.widths), states.files.widths[0]
        shape = (layers, width, classes, self.projection, self.hidden)
        probes = EdgeProbes.start(*shape, self.spans, seed, sides=len(targets[0].ends))
        train_probes(probes, states, targets, self.epochs, seed)
        return probes


def _scores(
    probes: EdgeProbes, states: LayerPieces, targets: list[NumberedTargets], numbers: tuple[int, ...]
) -> tuple[dict[str, Any], np.ndarray]:
    """Scores of the probes that see the layers up to each and what follows from them; and bool [layers, targets]."""
    from probe.edge_probes import answers

    named = answers(probes, states, targets)
    labels, control = numbers_of(targets, "labels"), numbers_of(targets, "control")
    owners = np.repeat(np.arange(len(targets)), [len(each.labels) for each in targets])
    right = named[:-1] == labels  # [layers, targets]
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


def _left_out(sentences: list[TargetSentence], asked: AskedTargets, states: LayerPieces) -> dict[str, int]:
    """Words that are not whole, and targets: those with such a word, and those with several labels."""
    return {
        "vanished": states.words.vanished,
        "cut": states.words.cut,
        "targets": asked.left_out,
        "several_labels": sum(each.several_labels for each in sentences),
    }


def _headline(found: dict[str, Any], change: dict[str, Any] | None) -> list[Metric]:
    last, n = found["layers"][-1], found["n_test"]
    return [
        Metric("edges_accuracy", found["accuracy"], "fraction", None, n, last["low"], last["high"]),
        *([change_metric("edges_change", change)] if change else []),
        Metric("edges_selectivity", found["selectivity"], "fraction", None, n),
        Metric("edges_expected_layer", found["expected_layer"], "layer", None, n),
        Metric("edges_centre_of_gravity", found["centre_of_gravity"], "layer", None, n),
    ]
