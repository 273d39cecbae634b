"""Surprisal of words against hand-computed bits, and its correlation with the teacher's against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from fake_models import Classifier, context, split
from planted_language import Planted, examined
from scipy.stats import pearsonr, spearmanr

from assay.core.errors import NotGiven
from probe.language.sentence_scores import score_texts
from probe.probes.surprisal import SurprisalProbe, _left_out, word_bits

PIECES = ("the", "dog", "un", "##happy", "was", ",", "cat", "new")
AFTER = {
    "[BOS]": {"the": 0.5}, "the": {"dog": 0.25, "un": 0.125}, "dog": {"was": 0.5, ",": 0.5}, "un": {"##happy": 0.25},
    "was": {"the": 0.25, "un": 0.0625}, ",": {"the": 0.125}, "##happy": {"cat": 0.5}, "cat": {"new": 0.125},
}  # fmt: skip
TEXTS = ["the dog was unhappy", "the dog, the dog", "the unhappy cat new", "the"]


def model(halved: str | None = None, length: int = 64) -> Planted:
    """After the token `halved` everything is half as probable."""

    def answer(tokens: list[str], place: int) -> dict[str, float]:
        known = AFTER.get(tokens[place], {})
        return {token: value / 2 for token, value in known.items()} if tokens[place] == halved else known

    return Planted(PIECES, answer, "text-generation", max_length=length)


def test_a_word_has_the_bits_of_its_tokens_and_a_mark_has_none() -> None:
    scores = score_texts(model(), TEXTS)
    assert word_bits(scores[0]) == pytest.approx([1, 2, 1, 4 + 2], abs=1e-5)
    assert word_bits(scores[1]) == pytest.approx([1, 2, 3, 2], abs=1e-5)


def test_a_word_that_is_cut_does_not_count() -> None:
    (scores,) = score_texts(model(length=5), TEXTS[:1])
    assert np.isnan(word_bits(scores)).tolist() == [False, False, False, True]


def test_what_is_left_out_is_counted_by_its_reason() -> None:
    """`long` reads all four words; `short`, its student, three."""
    long, short = model(), model(length=5)
    assert SurprisalProbe().run(long, examined(long, texts=TEXTS[:1])).details["left_out"] == {}
    assert SurprisalProbe().run(short, examined(short, long, TEXTS[:1])).details["left_out"] == {"cut": 1}
    assert SurprisalProbe().run(long, examined(long, short, TEXTS[:1])).details["left_out"] == {"cut": 1}
    counted, cut = np.array([True, False, False]), np.array([True, True, False])
    assert _left_out(counted, cut) == {"cut": 1, "without tokens": 1}


def test_first_words_are_left_out_and_means_are_told_by_position_and_part() -> None:
    teacher = model()
    findings = SurprisalProbe().run(teacher, examined(teacher, texts=TEXTS))
    (mean,) = findings.metrics
    bits = [[2, 1, 6], [2, 3, 2], [5, 1, 3]]
    assert (mean.value, mean.n, mean.unit) == (pytest.approx(np.mean(bits), abs=1e-5), 9, "bits per word")
    positions = findings.details["positions"]
    assert [(each["position"], each["n"]) for each in positions] == [(1, 3), (2, 3), (3, 3)]
    assert [each["bits"] for each in positions] == pytest.approx(np.mean(bits, axis=0), abs=1e-5)
    assert [each["part"] for each in findings.details["parts"]] == [1, 2, 3]


def test_the_words_that_became_less_expected_are_named_and_the_rest_agrees() -> None:
    findings = SurprisalProbe().run(model("was"), examined(model("was"), model(), TEXTS))
    found = {metric.name: metric for metric in findings.metrics}
    own, theirs = [2, 1, 7, 2, 3, 2, 5, 1, 3], [2, 1, 6, 2, 3, 2, 5, 1, 3]
    assert found["word_surprisal_change"].value == pytest.approx(1 / 9, abs=1e-5)
    assert found["word_surprisal_pearson"].value == pytest.approx(pearsonr(own, theirs).statistic, abs=1e-5)
    assert found["word_surprisal_spearman"].value == pytest.approx(spearmanr(own, theirs).statistic, abs=1e-5)
    (word,) = findings.details["most_surprising"]
    assert (word["row"], word["before"], word["word"]) == (1, "the dog was ", "unhappy")
    assert (word["bits"], word["teacher_bits"]) == pytest.approx((7, 6), abs=1e-5)


def test_intervals_draw_whole_texts() -> None:
    """With texts that are all alike there is nothing to draw; with texts that differ there is."""
    alike, mixed = (
        {metric.name: metric for metric in SurprisalProbe().run(model("was"), examined(model(), model(), rows)).metrics}
        for rows in (TEXTS[:1] * 3, TEXTS)
    )
    assert alike["word_surprisal"].low == alike["word_surprisal"].high == pytest.approx(10 / 3, abs=1e-5)
    assert mixed["word_surprisal"].low < mixed["word_surprisal"].value < mixed["word_surprisal"].high


def test_without_a_second_word_or_a_language_model_the_reason_is_told() -> None:
    with pytest.raises(NotGiven, match="no test row has another"):
        SurprisalProbe().run(model(), examined(model(), texts=["the", "dog"]))
    with pytest.raises(
        NotGiven, match=r"of the 1 others 1 stand behind the last token that is read \(data.max_length\)"
    ):
        SurprisalProbe().run(model(length=2), examined(model(length=2), texts=["the dog"]))
    with pytest.raises(NotGiven, match="surprisal needs a language model: task fill-mask or text-generation"):
        SurprisalProbe().run(Classifier(lambda text: [0.0, 1.0]), context(split(["a"])))
