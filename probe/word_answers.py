"""Words with tags, and what the classifiers of a model's layers answer for them (`probe/probes/tokens.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from probe.against_teacher import paired_change
from probe.by_sentence import share_interval
from probe.tagged_words import TaggedSentence
from probe.treebank import UNKNOWN
from probe.word_tags import micro_f1

if TYPE_CHECKING:
    from probe.word_pieces import AlignedWords

FEWEST_TRAIN, FEWEST_TEST = 10, 5  # words


@dataclass(frozen=True)
class Words:
    """All words of some sentences in a row.

    words, tags: str [n];  owners: int64 [n], the sentence of each;  known: bool [n], whether its tag is"""

    sentences: list[tuple[str, ...]]
    words: np.ndarray
    tags: np.ndarray
    owners: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, sentences: Sequence[TaggedSentence]) -> Words:
        """Of tagged sentences."""
        words = np.array([word for sentence in sentences for word in sentence.words], dtype=object)
        tags = np.array([tag for sentence in sentences for tag in sentence.tags])
        owners = np.repeat(np.arange(len(sentences)), [len(sentence.words) for sentence in sentences])
        return cls([sentence.words for sentence in sentences], words, tags, owners, tags != UNKNOWN)


@dataclass(frozen=True)
class LayerAnswers:
    """`answers` str [scored words]; `control` is the accuracy on the control task."""

    answers: np.ndarray
    control: float
    converged: bool | None

    def told(self, number: int, tags: np.ndarray, sentences: np.ndarray) -> dict[str, Any]:
        """Plain data; F1 where `O` marks what is no entity or chunk."""
        right = self.answers == tags
        low, high = share_interval(right, sentences)
        accuracy = float(right.mean())
        return {
            "layer": number,
            "accuracy": accuracy,
            "low": low,
            "high": high,
            "control": self.control,
            "selectivity": accuracy - self.control,
            "converged": self.converged,
        } | ({"f1": micro_f1(self.answers, tags)} if "O" in tags else {})


@dataclass(frozen=True)
class Reading:
    """What one model's layers tell.

    train, test: bool [all words], those that count;  words: of the train and of the test sentences"""

    train: np.ndarray
    test: np.ndarray
    words: list[AlignedWords]
    layers: dict[int, LayerAnswers]

    @property
    def obstacle(self) -> str:
        """Why nothing can be fitted and scored; empty where it can."""
        n_train, n_test = int(self.train.sum()), int(self.test.sum())
        if n_train < FEWEST_TRAIN or n_test < FEWEST_TEST:
            return f"{n_train} train and {n_test} test words, needs {FEWEST_TRAIN} and {FEWEST_TEST}"
        return ""

    def right(self, number: int, test: Words) -> np.ndarray:
        """[all test words]: 1 and 0 for right and wrong, NaN for words that do not count."""
        found = np.full(len(self.test), np.nan)
        found[self.test] = self.layers[number].answers == test.tags[self.test]
        return found


def changes(own: Reading, theirs: Reading, test: Words) -> list[dict[str, Any]]:
    """Accuracy less the teacher's in the layer of the same number, on the words that count in both."""
    return [change_of(own, theirs, number, number, test) for number in own.layers if number in theirs.layers]


def change_of(own: Reading, theirs: Reading, mine: int, other: int, test: Words) -> dict[str, Any]:
    """The accuracy in layer `mine` less the teacher's in layer `other`, with its interval over sentences."""
    return {"layer": mine} | paired_change(own.right(mine, test), theirs.right(other, test), test.owners)
