"""Self-made tasks for probing classifiers from the job's own text: train rows to fit on, test rows to score with.

`length` asks for the quartile of the number of words, `bigram_shift` whether two adjacent words were swapped (both
Conneau et al. 2018, "What you can cram into a single vector"), `label` for the job's own classes. The paper takes
sentences from a corpus; the number of words is that of the text, also where the model reads only its beginning.

Each task has a control (Hewitt and Liang 2019): labels drawn at random, the same for the same first word. A probe that
does well on it memorises words rather than reads what the layer encodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from probe.drawn_share import drawn_share
from probe.word_spans import fold, replace_words, word_spans

MIN_WORDS = 4  # a shift of a shorter text has at most one place, and often reads well
MIN_TRAIN, MIN_TEST = 10, 5


@dataclass(frozen=True)
class Examples:
    """`labels` is int64 [n]."""

    texts: list[str]
    labels: np.ndarray


def first_word(text: str) -> str:
    """The first word, whatever its case; the text itself where it has none."""
    spans = word_spans(text)[:1]
    return fold(text[slice(*spans[0])]) if spans else text


@dataclass(frozen=True)
class Task:
    """Examples to fit a probe on and examples to score it with. `silver`: whether a parser's word stands for the truth.

    `kind`: what rows of one kind share, which have one label in the control task (Hewitt and Liang 2019)."""

    name: str
    train: Examples
    test: Examples
    kind: Callable[[str], str] = first_word
    silver: bool = False

    @property
    def chance(self) -> float | None:
        """Accuracy of guessing among the classes of the training rows."""
        classes = len(np.unique(self.train.labels))
        return 1 / classes if classes else None

    @property
    def majority(self) -> float | None:
        """Test accuracy of always naming the most frequent class of the training rows."""
        if not len(self.train.labels) or not len(self.test.labels):
            return None
        classes, counts = np.unique(self.train.labels, return_counts=True)
        return float((self.test.labels == classes[counts.argmax()]).mean())

    def obstacle(self, least_test: int = MIN_TEST) -> str | None:
        """Why no probe can be trained and scored on `least_test` rows, or None."""
        n_train, n_test = len(self.train.labels), len(self.test.labels)
        if n_train < MIN_TRAIN or n_test < least_test:
            return f"not trainable: {n_train} train and {n_test} test rows fit, needs {MIN_TRAIN} and {least_test}"
        if len(np.unique(self.train.labels)) < 2:
            return f"not trainable: all {n_train} train rows are of one class"
        return None


def length_task(train: Sequence[str], test: Sequence[str]) -> Task:
    """Quartile of the word count; the edges come from the training texts, and equal edges merge."""
    counts = [np.array([len(word_spans(text)) for text in texts]) for texts in (train, test)]
    edges = np.unique(np.quantile(counts[0], [0.25, 0.5, 0.75])) if len(train) else np.array([])
    labels = [np.searchsorted(edges, count, side="right") for count in counts]
    return Task("length", Examples(list(train), labels[0]), Examples(list(test), labels[1]))


def bigram_shift_task(train: Sequence[str], test: Sequence[str], seed: int, max_words: int) -> Task:
    """1 where two adjacent words were swapped, 0 where the text is as it was; half of each.

    The first word stays, and the swap is within the first `max_words` words so that the model gets to see it."""
    rng = np.random.default_rng(seed)
    return Task("bigram_shift", _shifted(train, rng, max_words), _shifted(test, rng, max_words))


def _shifted(texts: Sequence[str], rng: np.random.Generator, max_words: int) -> Examples:
    pairs = [(text, swap) for text in texts if (swap := swap_words(text, rng, max_words)) is not None]
    labels = rng.permutation(np.arange(len(pairs)) % 2)
    return Examples([pair[label] for pair, label in zip(pairs, labels, strict=True)], labels)


def swap_words(text: str, rng: np.random.Generator, max_words: int) -> str | None:
    """`text` with two adjacent, different words swapped, at random but after the first; None when it is too short."""
    spans = word_spans(text)[:max_words]
    words = [text[start:end] for start, end in spans]
    places = [i for i in range(1, len(words) - 1) if fold(words[i]) != fold(words[i + 1])]
    if len(words) < MIN_WORDS or not places:
        return None
    place = int(rng.choice(places))
    return replace_words(text, spans, {place: words[place + 1], place + 1: words[place]})


def control_labels(
    texts: Sequence[str], like: np.ndarray, seed: int, kind: Callable[[str], str] = first_word
) -> np.ndarray:
    """[texts] labels drawn by a hash of each text's kind, in the proportions of the labels `like`."""
    classes, counts = np.unique(like, return_counts=True)
    edges = np.cumsum(counts[:-1]) / counts.sum()
    return classes[np.searchsorted(edges, [drawn_share(kind(text), seed) for text in texts], side="right")]
