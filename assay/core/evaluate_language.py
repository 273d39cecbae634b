"""Metrics of a language model on the test texts, and of one beside its teacher, asked the same questions.

A text counts with all its tokens: sums over texts, divided by sums of tokens. Intervals draw texts, since the tokens of
one text are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from scipy.special import log_softmax

from assay.core.metric import Metric
from assay.core.model.language import LanguageModel
from assay.core.model.questions import Question
from assay.core.stats import bootstrap_interval

TOGETHER = 1024  # places whose distributions are held at once, to compare two models: 200 MB each of 50,000 tokens


@dataclass(frozen=True)
class Answers:
    """Sums over the asked tokens of each text, all float64 [texts].

    tokens: how many were asked; nll: of -log probability of the right token, in nats; right: of 1 where it was the
    likeliest; bytes: of the text that the asked tokens stand for, for text-generation. Beside a teacher: teacher_nll;
    same: of 1 where both found the same token likeliest; kl: of the divergence of the model's distribution from the
    teacher's, KL(teacher || model), in nats."""

    tokens: np.ndarray
    nll: np.ndarray
    right: np.ndarray
    bytes: np.ndarray | None = None
    teacher_nll: np.ndarray | None = None
    same: np.ndarray | None = None
    kl: np.ndarray | None = None

    @property
    def paired(self) -> bool:
        """Whether the teacher was asked the same."""
        return self.teacher_nll is not None

    @property
    def obstacle(self) -> str | None:
        """Why there are no figures; None where there are."""
        if self.tokens.sum():
            return None
        return f"none of the {len(self.tokens)} test texts has a token that can be asked for"

    def columns(self) -> dict[str, np.ndarray]:
        """What is known, by name."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: values for name, values in known.items() if values is not None}


def answer(model: LanguageModel, texts: Sequence[str], teacher: LanguageModel | None = None) -> Answers:
    """What the model makes of each text, beside its teacher where one is given and has the same tokens."""
    questions = [model.asker.about(ids) for ids in model.encoder.ids(texts)]
    read = _bytes_asked(model, texts) if model.asker.task == "text-generation" else None
    if teacher is None or not same_tokens(model, teacher):
        tokens, nll, right = np.array(model.ask(questions, partial(_alone, questions))).reshape(-1, 3).T
        return Answers(tokens, nll, right, read)
    found = np.zeros((len(questions), 6))
    for rows in _chunks(questions):
        found[rows] = _together(model, teacher, [questions[row] for row in rows])
    tokens, nll, right, *beside = found.T
    return Answers(tokens, nll, right, read, *beside)


def _chunks(questions: Sequence[Question], places: int = TOGETHER) -> Iterator[list[int]]:
    """Positions of questions by length, of at most so many places together; one that has more comes alone."""
    chunk: list[int] = []
    held = 0
    for row in sorted(range(len(questions)), key=lambda row: len(questions[row].ids)):
        size = len(questions[row].places)
        if chunk and held + size > places:
            yield chunk
            chunk, held = [], 0
        chunk.append(row)
        held += size
    if chunk:
        yield chunk


def _bytes_asked(model: LanguageModel, texts: Sequence[str]) -> np.ndarray:
    """float64 [texts]: bytes from the end of the first token, which no causal model is asked, to that of the last; the
    first may be one that is no part of the text."""
    sizes = []
    for text, spans in zip(texts, model.encoder.offsets(texts), strict=True):
        ends = [0 if span is None else span[1] for span in spans] or [0]
        sizes.append(len(text[ends[0] : max(ends)].encode()))
    return np.array(sizes, np.float64)


def same_tokens(model: LanguageModel, teacher: LanguageModel) -> bool:
    """Whether both have the same vocabulary, so that an answer of one can be held against that of the other."""
    return model.encoder.tokenizer.get_vocab() == teacher.encoder.tokenizer.get_vocab()


def metrics_of(answers: Answers) -> list[Metric]:
    """perplexity: exp of the mean nll of a token, among the hidden ones for fill-mask; token_accuracy. For
    text-generation bits_per_byte: nll in bits by bytes of the text that was asked for, which hardly depends on how
    texts are made into tokens. Beside a teacher: perplexity_ratio (1 = as good), token_loyalty (same likeliest token),
    token_kl.

    None at all where no token was asked."""
    n = int(answers.tokens.sum())
    if not n:
        return []
    of_tokens = partial(_ratio, n=n, by=answers.tokens)
    metrics = [
        of_tokens("perplexity", answers.nll, "perplexity", False, then=np.exp),
        of_tokens("token_accuracy", answers.right, "fraction", True),
    ]
    if answers.bytes is not None:
        metrics.append(_ratio("bits_per_byte", answers.nll / np.log(2), "bits per byte", False, n=n, by=answers.bytes))
    if answers.teacher_nll is None or answers.same is None or answers.kl is None:
        return metrics
    return [
        *metrics,
        of_tokens("perplexity_ratio", answers.nll - answers.teacher_nll, "ratio", False, then=np.exp),
        of_tokens("token_loyalty", answers.same, "fraction", True),
        of_tokens("token_kl", answers.kl, "nats per token", False),
    ]


def _alone(questions: Sequence[Question], row: int, logits: np.ndarray) -> tuple[float, float, float]:
    answers = questions[row].answers
    scores = log_softmax(logits.astype(np.float64), axis=-1)
    right = logits.argmax(axis=-1) == answers if len(answers) else np.zeros(0)
    return len(answers), -scores[np.arange(len(answers)), answers].sum(), right.sum()


def _together(model: LanguageModel, teacher: LanguageModel, questions: Sequence[Question]) -> np.ndarray:
    """[questions, 6], the columns of `Answers`."""
    ours, theirs = (each.ask(questions, lambda row, logits: logits) for each in (model, teacher))
    return np.array([_beside(*each) for each in zip(questions, ours, theirs, strict=True)])


def _beside(question: Question, ours: np.ndarray, theirs: np.ndarray) -> tuple[float, ...]:
    answers = question.answers
    if not len(answers):
        return (0.0,) * 6
    ours, theirs = (log_softmax(logits.astype(np.float64), axis=-1) for logits in (ours, theirs))
    named = np.arange(len(answers)), answers
    best, teacher_best = ours.argmax(axis=-1), theirs.argmax(axis=-1)
    right, same = (best == answers).sum(), (best == teacher_best).sum()
    kl = (np.exp(theirs) * (theirs - ours)).sum()
    return len(answers), -ours[named].sum(), right, -theirs[named].sum(), same, kl


def _ratio(
    name: str,
    values: np.ndarray,
    unit: str,
    higher_is_better: bool,
    n: int,
    by: np.ndarray,
    then: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> Metric:
    """`then` of the sum of `values` by the sum of `by`, both one a text."""

    def statistic(values: np.ndarray, by: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return then(values.sum(axis=-1) / by.sum(axis=-1))

    bounds = bootstrap_interval(statistic, values, by, vectorized=True)
    return Metric(name, float(statistic(values, by)), unit, higher_is_better, n, *bounds)
