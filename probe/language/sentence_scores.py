"""How probable a language model finds a text, token by token.

text-generation: the log-probability of each token after those before it; their sum is that of the text (what may stand
before the first token, see `read_texts`). fill-mask: the pseudo-log-likelihood of Salazar et al. 2020 ("Masked Language
Model Scoring", https://aclanthology.org/2020.acl-main.240), each token named where it alone is hidden; or that of Kauf
and Ivanova 2023 ("A Better Way to Do Masked Language Model Scoring", https://aclanthology.org/2023.acl-short.80), which
hides the tokens to its right in the same word too. Without that, a rare word of many pieces counts as probable, since
each piece gives the others away; so the second is the default here. A word is one of `word_spans`; a mark stands alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from probe.language.read_texts import ReadText, read_texts, words_of

if TYPE_CHECKING:
    from assay.core.model.language import LanguageModel
    from assay.core.model.questions import Question

Masking = Literal["word_l2r", "token"]


@dataclass(frozen=True)
class TextScores:
    """`log_probabilities`, float64 in nats, are those of the tokens `read.asked`."""

    read: ReadText
    log_probabilities: np.ndarray

    @property
    def total(self) -> float:
        """(Pseudo-)log-probability of the text in nats; 0 without a token."""
        return float(self.log_probabilities.sum())


def score_texts(model: LanguageModel, texts: Sequence[str], masking: Masking = "word_l2r") -> list[TextScores]:
    """The scores of each text. For fill-mask the model reads a text as often as it has tokens, and all copies of all
    texts are asked together; `masking` says what is hidden with a token, and means nothing to a causal model."""
    reads = read_texts(model, texts)
    values = _causal(model, reads) if model.asker.task == "text-generation" else _masked(model, reads, masking)
    return [TextScores(read, each) for read, each in zip(reads, values, strict=True)]


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Natural logs of the softmax over the last axis, float64."""
    from scipy.special import log_softmax

    return log_softmax(np.asarray(logits, np.float64), axis=-1)


def _causal(model: LanguageModel, reads: list[ReadText]) -> list[np.ndarray]:
    questions = [model.asker.at(read.ids, read.asked) for read in reads]

    def named(row: int, logits: np.ndarray) -> np.ndarray:
        answers = questions[row].answers
        return log_probabilities(logits)[np.arange(len(answers)), answers]

    return model.ask(questions, named)


def _masked(model: LanguageModel, reads: list[ReadText], masking: Masking) -> list[np.ndarray]:
    questions = [question for read in reads for question in _hidden_in_turn(model, read, masking)]

    def named(row: int, logits: np.ndarray) -> float:
        """Of the first of the hidden tokens, which is the one that the question is about."""
        return float(log_probabilities(logits[0])[questions[row].answers[0]])

    values = np.array(model.ask(questions, named), dtype=np.float64)
    return np.split(values, np.cumsum([len(read.asked) for read in reads])[:-1]) if reads else []


def _hidden_in_turn(model: LanguageModel, read: ReadText, masking: Masking) -> list[Question]:
    """One question for each asked token."""
    words = words_of(read)
    to_the_right = {
        place: [later for later in read.asked if later > place and words[later] == words[place] is not None]
        for place in (read.asked if masking == "word_l2r" else ())
    }
    return [model.asker.at(read.ids, [place, *to_the_right.get(place, ())]) for place in read.asked]
