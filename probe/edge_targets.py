"""What edge probes are asked: the label of a span of words, or of a pair of spans.

A span is (start, end) in the words of its sentence, the end left out, so a word is a span of length 1, and a word with
its head in a tree is a pair of two such spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Literal, NamedTuple

import numpy as np

from probe.treebank import UNKNOWN
from probe.treebank import Sentence as TreeSentence
from probe.word_spans import Span
from probe.word_tags import control_tags, most_frequent, share_by_word


class Target(NamedTuple):
    """One span or two, with their label. `type` is the text of the first span: the control task gives targets of one
    type one label."""

    spans: tuple[Span, ...]
    label: str
    type: str


@dataclass(frozen=True)
class TargetSentence:
    """`several_labels` counts the targets that its file has beside these, left out for having more than one label."""

    words: tuple[str, ...]
    targets: tuple[Target, ...]
    several_labels: int = 0


@dataclass(frozen=True)
class AskedTargets:
    """Targets of some sentences in one model. whole: of each sentence, of each target whether the model reads all its
    words whole;  by_sentence: of each sentence those that are"""

    whole: list[list[bool]]
    by_sentence: list[list[Target]]

    @classmethod
    def of(cls, sentences: Sequence[TargetSentence], pieces: Sequence[Sequence[Sequence[int]]]) -> AskedTargets:
        """`pieces`: of each sentence, of each word; a word that is not whole has none."""
        pairs = list(zip(sentences, pieces, strict=True))
        whole = [[_is_whole(target, own) for target in sentence.targets] for sentence, own in pairs]
        return cls(whole, [list(compress(each.targets, own)) for each, own in zip(sentences, whole, strict=True)])

    @property
    def every(self) -> list[Target]:
        """Those that are whole, of all sentences."""
        return list(chain.from_iterable(self.by_sentence))

    @property
    def left_out(self) -> int:
        """How many are not whole."""
        return sum(own.count(False) for own in self.whole)


class NumberedTargets(NamedTuple):
    """Targets of one sentence as numbers. spans: its distinct spans;  ends: int64 [1 or 2, targets] positions in them;
    labels, control: int64 [targets]"""

    spans: list[Span]
    ends: np.ndarray
    labels: np.ndarray
    control: np.ndarray


def of_tree(sentence: TreeSentence) -> TargetSentence:
    """Each word and its head, with the relation (DEPREL without subtype) as label; no root, and nothing unknown."""
    columns = zip(sentence.words, sentence.heads, sentence.deprel, strict=True)
    targets = [
        Target(((at, at + 1), (head, head + 1)), relation.partition(":")[0], word)
        for at, (word, head, relation) in enumerate(columns)
        if head is not None and head >= 0 and relation != UNKNOWN
    ]
    return TargetSentence(sentence.words, tuple(targets))


def numbered(asked: AskedTargets, train: Sequence[Target], names: Sequence[str], seed: int) -> list[NumberedTargets]:
    """Labels by their place in `names`; one that training does not have is -1, which no probe gives. Those of the
    control task have the proportions of the labels in training."""
    known, like = {name: at for at, name in enumerate(names)}, np.array([target.label for target in train])
    return [_numbered(own, len(train[0].spans), known, like, seed) for own in asked.by_sentence]


def numbers_of(targets: Sequence[NumberedTargets], name: Literal["labels", "control"]) -> np.ndarray:
    """int64 [targets of all sentences]: their labels, or those of the control task."""
    return np.concatenate([getattr(each, name) for each in targets])


def baselines(train: Sequence[Target], test: Sequence[Target]) -> dict[str, float]:
    """Accuracy of the commonest label, and of the commonest of each type."""
    (types, labels), (test_types, test_labels) = (
        ([target.type for target in part], [target.label for target in part]) for part in (train, test)
    )
    common = most_frequent(labels)
    return {
        "majority": sum(label == common for label in test_labels) / len(test_labels),
        "most_frequent_relation": share_by_word(types, labels, test_types, test_labels),
    }


def _is_whole(target: Target, pieces: Sequence[Sequence[int]]) -> bool:
    return all(pieces[at] for span in target.spans for at in range(*span))


def _numbered(
    targets: Sequence[Target], sides: int, known: dict[str, int], like: np.ndarray, seed: int
) -> NumberedTargets:
    spans = list(dict.fromkeys(span for target in targets for span in target.spans))
    places = {span: at for at, span in enumerate(spans)}
    ends = np.array([[places[span] for span in target.spans] for target in targets], dtype=np.int64)
    control = control_tags([target.type for target in targets], like, seed)
    return NumberedTargets(
        spans,
        ends.reshape(-1, sides).T,
        np.array([known.get(target.label, -1) for target in targets], dtype=np.int64),
        np.array([known[str(name)] for name in control], dtype=np.int64),
    )
