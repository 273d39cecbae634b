"""Greedy search for the typing errors that make a classifier change its mind, over many texts at once.

Words are ranked by how much the probability of the true class falls when the word is left out (the deletion score of
Li et al. 2016; Pruthi et al. 2019 try every word instead). Then, word by word, the misspelling that lowers that
probability most is kept, until the label flips or `max_edits` words are changed. One round asks the model about all
texts that are still standing, in one call.

A text's queries are all the variations of it that the model was asked about; the answer to the text itself is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from probe.edit_characters import edit_candidates, is_editable
from probe.word_spans import Span, fold, replace_words, word_spans

Ask = Callable[[list[str]], np.ndarray]  # texts -> class probabilities [texts, classes]

FLIPPED, OUT_OF_BUDGET, HELD = "flipped", "failed (budget)", "failed (no edit left)"
CHUNK = 4096  # variations asked about in one call, so that memory does not grow with the number of texts


@dataclass
class Target:
    """A text under attack. `words` are the positions in `spans` that may be edited, the most important first once
    ranked. `probability` is that of the true class, `predicted` the class now named."""

    row: int
    text: str
    label: int
    probability: float
    predicted: int
    spans: list[Span]
    words: list[int]
    edits: dict[int, str] = field(default_factory=dict)
    queries: int = 0
    outcome: str | None = None

    def word(self, index: int) -> str:
        """The unedited word at this position of `spans`."""
        return self.text[slice(*self.spans[index])]

    def with_edit(self, index: int, word: str) -> str:
        """The text with the edits kept so far and one more."""
        return replace_words(self.text, self.spans, self.edits | {index: word})

    @property
    def perturbed(self) -> str:
        """The text with the edits kept so far."""
        return replace_words(self.text, self.spans, self.edits)


def make_target(row: int, text: str, label: int, probability: float, stopwords: Sequence[str] = ()) -> Target:
    """A target that is right so far. `stopwords` are never edited, whatever their case or apostrophes."""
    spans, kept = word_spans(text), {fold(word) for word in stopwords}
    words = [i for i, (a, b) in enumerate(spans) if is_editable(text[a:b]) and fold(text[a:b]) not in kept]
    return Target(row, text, label, probability, label, spans, words)


def attack(targets: Sequence[Target], ask: Ask, max_edits: int, query_budget: int | None, seed: int) -> None:
    """Edit every target until it has an outcome. No target uses more than `query_budget` queries."""
    for target in targets:
        # A ranking that leaves no query for an edit is worth nothing: the text fails before it costs anything.
        if query_budget is not None and len(target.words) >= query_budget:
            target.outcome = OUT_OF_BUDGET
    _rank([target for target in targets if target.outcome is None], ask)
    while standing := [target for target in targets if target.outcome is None]:
        _try_next_word(standing, ask, query_budget, seed)
        for target in standing:
            _judge(target, max_edits, query_budget)


def _rank(targets: Sequence[Target], ask: Ask) -> None:
    left_out = [target.with_edit(index, "") for target in targets for index in target.words]
    answers = iter(_ask_in_chunks(left_out, ask))
    for target in targets:
        without = [next(answers)[target.label] for _ in target.words]
        target.words = [target.words[i] for i in np.argsort(without, kind="stable")]
        target.queries += len(target.words)


def _try_next_word(targets: Sequence[Target], ask: Ask, query_budget: int | None, seed: int) -> None:
    tries = [_candidates(target, target.words.pop(0), query_budget, seed) for target in targets]
    texts = [target.with_edit(i, word) for target, edits in zip(targets, tries, strict=True) for i, word in edits]
    answers = iter(_ask_in_chunks(texts, ask))
    for target, edits in zip(targets, tries, strict=True):
        target.queries += len(edits)
        _keep_best(target, edits, [next(answers) for _ in edits])


def _candidates(target: Target, index: int, query_budget: int | None, seed: int) -> list[tuple[int, str]]:
    random = Random(f"{seed} {target.row} {index}")  # a text's typos do not depend on the texts beside it
    left = None if query_budget is None else query_budget - target.queries
    return [(index, word) for word in edit_candidates(target.word(index), random)[:left]]


def _keep_best(target: Target, edits: list[tuple[int, str]], answers: list[np.ndarray]) -> None:
    """Keep the edit that flips the label, else the one that lowers the true class most, if any does."""
    flips = [answer.argmax() != target.label for answer in answers]
    best = min(range(len(edits)), key=lambda i: (not flips[i], answers[i][target.label]))
    if flips[best] or answers[best][target.label] < target.probability:
        target.edits |= [edits[best]]
        target.probability = float(answers[best][target.label])
        target.predicted = int(answers[best].argmax())


def _judge(target: Target, max_edits: int, query_budget: int | None) -> None:
    if target.predicted != target.label:
        target.outcome = FLIPPED
    elif len(target.edits) == max_edits or not target.words:
        target.outcome = HELD
    elif query_budget is not None and target.queries >= query_budget:
        target.outcome = OUT_OF_BUDGET


def _ask_in_chunks(texts: list[str], ask: Ask) -> np.ndarray | list[np.ndarray]:
    parts = [ask(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK)]
    return np.concatenate(parts) if parts else []
