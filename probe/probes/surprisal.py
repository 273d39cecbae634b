"""How surprising a language model finds each word of the test rows, beside its teacher (surprisal: Hale 2001, "A
Probabilistic Earley Parser as a Psycholinguistic Model", https://aclanthology.org/N01-1021; Levy 2008).

A word's surprisal is the sum over its tokens, in bits; for fill-mask a pseudo-surprisal, since the model sees what
follows too (`probe/language/sentence_scores.py`). Words are those of `probe/word_spans.py`: marks are read and not
counted. A leading space counts to the word where the tokenizer has it there. The first word of a text is left out of
all figures, since a causal model knows nothing of it; so is one that the model does not read to its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from assay.core.errors import NotGiven
from assay.core.metric import Metric
from assay.core.stats import bootstrap_interval
from probe.against_teacher import with_teacher
from probe.language.read_texts import as_language_model, words_of
from probe.language.sentence_scores import Masking, TextScores, score_texts
from probe.probe import Findings, Probe, ProbeContext
from probe.sample import draw_rows
from probe.word_spans import word_spans

if TYPE_CHECKING:
    from assay.core.data.prepare import Split
    from assay.core.model.predict import Predictor

PARTS = 4  # of a text, of equally many words
MOST_POSITIONS = 40  # beyond them few texts have a word
MAX_EXAMPLES = 20


@dataclass(frozen=True)
class Words:
    """All words but the first of each text, in order. bits: float64 [words], NaN where a word is not whole; owners,
    positions, lengths: int64 [words], the text, the place in it from 1 (the second word), and the words of it; cut:
    bool [words], not whole since the text has more tokens than the model reads."""

    bits: np.ndarray
    owners: np.ndarray
    positions: np.ndarray
    lengths: np.ndarray
    cut: np.ndarray

    def of(self, rows: np.ndarray) -> Words:
        """The words at these positions."""
        return Words(self.bits[rows], self.owners[rows], self.positions[rows], self.lengths[rows], self.cut[rows])

    @cached_property
    def parts(self) -> np.ndarray:
        """int64 [words]: which quarter of its text a word is in, from 0."""
        return self.positions * PARTS // self.lengths


class SurprisalProbe(Probe):
    """`samples` test rows are read; `masking` is that of `probe/language/sentence_scores.py`."""

    version: ClassVar[int] = 2

    samples: PositiveInt = 100
    masking: Masking = "word_l2r"

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Mean surprisal, its correlation with the teacher's and its change. NotGiven unless the model names tokens,
        and where no word is left, with the reason."""
        rows = ctx.data.test.take(draw_rows(ctx.data.test.labels, self.samples, ctx.seed))
        own, theirs = with_teacher(self, model, ctx, lambda of: self._read(of, rows.texts))
        counted = np.isfinite(own.bits) & (np.isfinite(theirs.bits) if theirs else True)
        words = own.of(np.flatnonzero(counted))
        before = theirs.of(np.flatnonzero(counted)) if theirs else None
        left_out = _left_out(counted, own.cut | theirs.cut if theirs else own.cut)
        if not len(words.bits):
            raise NotGiven(f"surprisal leaves the first word of a text out, and {_none_left(left_out, len(own.bits))}")
        details = {
            "left_out": left_out,
            "positions": _groups(words, before, np.minimum(words.positions, MOST_POSITIONS), "position"),
            "parts": _groups(words, before, words.parts, "part"),
            "most_surprising": _most(rows, words, before) if before else [],
        }
        return Findings(_headline(words, before), details)

    def tiny(self) -> SurprisalProbe:
        return self.model_copy(update={"samples": 8})

    def _read(self, model: Predictor, texts: list[str]) -> Words:
        scores = score_texts(as_language_model(model, "surprisal"), texts, self.masking)
        bits = [word_bits(each)[1:] for each in scores]
        cut = [cut_words(each)[1:] for each in scores]
        sizes = [len(each) for each in bits]
        return Words(
            np.concatenate([*bits, np.zeros(0)]),
            np.repeat(np.arange(len(texts)), sizes),
            np.concatenate([*(np.arange(1, size + 1) for size in sizes), np.zeros(0, np.int64)]),
            np.repeat(np.array(sizes, np.int64) + 1, sizes),
            np.concatenate([*cut, np.zeros(0, bool)]),
        )


def word_bits(scores: TextScores) -> np.ndarray:
    """float64 [words of the text] in bits, NaN for a word without tokens that are asked, or not read to its end."""
    spans = word_spans(scores.read.text)
    bits, ends = np.zeros(len(spans)), [0] * len(spans)
    owners = words_of(scores.read)
    unasked = {word for place, word in enumerate(owners) if word is not None and place not in set(scores.read.asked)}
    for place, value in zip(scores.read.asked, scores.log_probabilities, strict=True):
        word, span = owners[place], scores.read.spans[place]
        if word is not None and span is not None:
            bits[word] -= value / np.log(2)
            ends[word] = max(ends[word], span[1])
    whole = [ends[word] >= end and word not in unasked for word, (_, end) in enumerate(spans)]
    return np.where(whole, bits, np.nan)


def cut_words(scores: TextScores) -> np.ndarray:
    """bool [words of the text]: those that end behind the last token that the model reads."""
    read = scores.read
    end = max((span[1] for span in read.spans if span is not None), default=0)
    return np.array([read.cut and last > end for _, last in word_spans(read.text)], dtype=bool)


def _left_out(counted: np.ndarray, cut: np.ndarray) -> dict[str, int]:
    """How many words do not count, by reason; `cut` are those that one of the models does not read to their end."""
    found = {"cut": int((~counted & cut).sum()), "without tokens": int((~counted & ~cut).sum())}
    return {reason: count for reason, count in found.items() if count}


def _none_left(left_out: dict[str, int], words: int) -> str:
    if not words:
        return "no test row has another"
    told = {"cut": "stand behind the last token that is read (data.max_length)", "without tokens": "have no tokens"}
    return f"of the {words} others " + ", ".join(f"{count} {told[reason]}" for reason, count in left_out.items())


def _headline(words: Words, before: Words | None) -> list[Metric]:
    metrics = [_mean("word_surprisal", words.bits, words.owners, False)]
    if before is None:
        return metrics
    from scipy.stats import rankdata

    ranks = rankdata(words.bits), rankdata(before.bits)
    return [
        *metrics,
        _mean("word_surprisal_change", words.bits - before.bits, words.owners, None),
        _correlation("word_surprisal_pearson", words.bits, before.bits, words.owners),
        _correlation("word_surprisal_spearman", *ranks, words.owners),
    ]


def _mean(name: str, values: np.ndarray, owners: np.ndarray, higher_is_better: bool | None) -> Metric:
    sums, counts = _sums(owners, values, np.ones(len(values)))
    bounds = bootstrap_interval(lambda total, n: total.sum(-1) / n.sum(-1), sums, counts, vectorized=True)
    return Metric(name, float(values.mean()), "bits per word", higher_is_better, len(values), *bounds)


def _correlation(name: str, x: np.ndarray, y: np.ndarray, owners: np.ndarray) -> Metric:
    """Pearson's r; texts are drawn for the interval. Ranks are given as x and y, those among all words."""
    x, y = x - x.mean(), y - y.mean()
    sums = _sums(owners, np.ones(len(x)), x * x, y * y, x * y, x, y)
    value = float(_pearson(*sums))
    bounds = bootstrap_interval(_pearson, *sums, vectorized=True)
    return Metric(name, value if np.isfinite(value) else None, "correlation", True, len(x), *bounds)


def _pearson(n: np.ndarray, xx: np.ndarray, yy: np.ndarray, xy: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """r from sums over texts, the last axis."""
    n, xx, yy, xy, x, y = (each.sum(axis=-1) for each in (n, xx, yy, xy, x, y))
    with np.errstate(all="ignore"):
        return (xy - x * y / n) / np.sqrt((xx - x * x / n) * (yy - y * y / n))


def _sums(owners: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
    """Of each column the sum a text, for the texts that have a word."""
    texts = np.unique(owners, return_inverse=True)[1]
    return [np.bincount(texts, each) for each in values]


def _groups(words: Words, before: Words | None, groups: np.ndarray, name: str) -> list[dict[str, Any]]:
    """Mean surprisal by group, and its change; positions are counted from 0, the first word."""
    told = []
    for group in np.unique(groups):
        at = groups == group
        change = float((words.bits[at] - before.bits[at]).mean()) if before else None
        told.append({name: int(group), "n": int(at.sum()), "bits": float(words.bits[at].mean()), "change": change})
    return told


def _most(rows: Split, words: Words, before: Words) -> list[dict[str, Any]]:
    """The words whose surprisal rose most, with the text before them."""
    order = np.argsort(before.bits - words.bits, kind="stable")[:MAX_EXAMPLES]
    return [_example(rows, words, before, at) for at in order if words.bits[at] > before.bits[at]]


def _example(rows: Split, words: Words, before: Words, at: int) -> dict[str, Any]:
    text = rows.texts[words.owners[at]]
    start, end = word_spans(text)[words.positions[at]]
    return {
        "row": rows.rows[words.owners[at]],
        "before": text[max(0, start - 60) : start],
        "word": text[start:end],
        "bits": float(words.bits[at]),
        "teacher_bits": float(before.bits[at]),
    }
