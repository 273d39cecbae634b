"""How probable a language model finds each candidate answer in each prompt.

fill-mask: the mean log-probability of the answer's tokens where all of them are hidden at once (as in typed querying,
Kassner et al. 2021, "Multilingual LAMA", https://aclanthology.org/2021.eacl-main.284): one reading a prompt and number
of tokens, for all candidates. text-generation: the log-probability of the answer after the prompt, the sum over its
tokens. A candidate can only be as probable as its first token, so that those whose first token is less probable than
the whole right answer, in every prompt of the fact, need not be read further: their rank is known to be lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probe.language.blanks import Blank, Pieces
from probe.language.sentence_scores import log_probabilities

if TYPE_CHECKING:
    from assay.core.model.language import LanguageModel
    from assay.core.model.questions import Question


@dataclass(frozen=True)
class Asked:
    """One prompt of a fact. `candidates` are the tokens of each candidate answer at that place, empty where the model
    has no tokens for it; `answer` is the number of the right one; `fact` that of the fact among those asked together.
    """

    fact: int
    blank: Blank
    candidates: Sequence[Pieces]
    answer: int


@dataclass(frozen=True)
class Scores:
    """candidates: float64 [candidates], nats, -inf for those without tokens. For a causal model those that cannot be
    above the right answer have an upper bound.
    vocabulary: float32 [vocabulary], log-probabilities of single tokens at that place"""

    candidates: np.ndarray
    vocabulary: np.ndarray


def score_candidates(model: LanguageModel, asked: Sequence[Asked]) -> list[Scores]:
    """The scores of the candidates in each prompt. The prompts of a fact must be asked together."""
    return (_causal if model.asker.task == "text-generation" else _masked)(model, asked)


def _masked(model: LanguageModel, asked: Sequence[Asked]) -> list[Scores]:
    places = [(row, size) for row, each in enumerate(asked) for size in sorted({1, *map(len, each.candidates)} - {0})]
    questions = [_all_hidden(model, asked[row].blank, size) for row, size in places]
    scores = [Scores(np.full(len(each.candidates), -np.inf), np.zeros(0, np.float32)) for each in asked]

    def take(number: int, logits: np.ndarray) -> tuple[list[int], np.ndarray, np.ndarray]:
        (row, size), known = places[number], log_probabilities(logits)
        fitting = [at for at, pieces in enumerate(asked[row].candidates) if len(pieces) == size]
        tokens = np.array([asked[row].candidates[at] for at in fitting], np.int64).reshape(-1, size)
        return fitting, known[np.arange(size), tokens].mean(axis=1), known[0].astype(np.float32)

    for (row, size), (fitting, values, vocabulary) in zip(places, model.ask(questions, take), strict=True):
        scores[row].candidates[fitting] = values
        if size == 1:
            scores[row] = Scores(scores[row].candidates, vocabulary)
    return scores


def _all_hidden(model: LanguageModel, blank: Blank, size: int) -> Question:
    first = len(blank.before)
    ids = [*blank.before, *blank.answer[:1] * size, *blank.after]
    return model.asker.at(ids, range(first, first + size))


def _causal(model: LanguageModel, asked: Sequence[Asked]) -> list[Scores]:
    openings = [model.asker.at([*each.blank.before, each.blank.answer[0]], [len(each.blank.before)]) for each in asked]
    first = model.ask(openings, lambda row, logits: log_probabilities(logits[0]).astype(np.float32))
    scores = [
        Scores(np.array([known[pieces[0]] if pieces else -np.inf for pieces in each.candidates], np.float64), known)
        for each, known in zip(asked, first, strict=True)
    ]
    _read_on(model, asked, scores, [(row, each.answer) for row, each in enumerate(asked)])
    rivals: dict[int, set[int]] = {}
    for each, score in zip(asked, scores, strict=True):
        above = np.flatnonzero(score.candidates >= score.candidates[each.answer])
        rivals.setdefault(each.fact, set()).update(above.tolist())
    later = [(row, at) for row, each in enumerate(asked) for at in sorted(rivals[each.fact] - {each.answer})]
    _read_on(model, asked, scores, later)
    return scores


def _read_on(model: LanguageModel, asked: Sequence[Asked], scores: list[Scores], which: list[tuple[int, int]]) -> None:
    """Add the tokens after the first one to the scores of some candidates, (prompt, candidate)."""
    longer = [(row, at) for row, at in which if len(asked[row].candidates[at]) > 1]
    questions = []
    for row, at in longer:
        before, pieces = asked[row].blank.before, asked[row].candidates[at]
        questions.append(model.asker.at([*before, *pieces], range(len(before) + 1, len(before) + len(pieces))))

    def take(number: int, logits: np.ndarray) -> float:
        answers = questions[number].answers
        return float(log_probabilities(logits)[np.arange(len(answers)), answers].sum())

    for (row, at), value in zip(longer, model.ask(questions, take), strict=True):
        scores[row].candidates[at] += value
