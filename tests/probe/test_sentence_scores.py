"""Scores of texts against hand-computed ones, and on real weights against a plain forward pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from planted_language import Planted

from assay.core.artifact import Artifact
from assay.core.model.language import TorchLanguageModel
from assay.core.model.predict import open_predictor
from probe.language.read_texts import read_texts, words_of
from probe.language.sentence_scores import score_texts

PIECES = ("the", "dog", "un", "##happy", "was", ".")
AFTER = {"[BOS]": {"the": 0.5}, "the": {"dog": 0.25, "un": 0.125}, "dog": {"was": 0.5}, "un": {"##happy": 0.75}}


def bigrams(tokens: list[str], place: int) -> dict[str, float]:
    return AFTER.get(tokens[place], {})


def test_a_causal_score_is_the_sum_of_the_log_probabilities_after_the_start_token() -> None:
    model = Planted(PIECES, bigrams, "text-generation")
    found = score_texts(model, ["the dog was", "the unhappy"])
    assert found[0].log_probabilities == pytest.approx(np.log([0.5, 0.25, 0.5]), abs=1e-5)
    assert found[1].total == pytest.approx(np.log(0.5 * 0.125 * 0.75), abs=1e-5)


def test_without_a_token_to_start_with_the_first_one_is_not_asked() -> None:
    model = Planted(PIECES, bigrams, "text-generation", bos=False)
    (found,) = score_texts(model, ["the dog was"])
    assert found.log_probabilities == pytest.approx(np.log([0.25, 0.5]), abs=1e-5)


def givers(tokens: list[str], place: int) -> dict[str, float]:
    """Each piece of "unhappy" gives the other away; "the" is known anywhere."""
    if "[MASK]" in tokens[:place]:
        return {}
    if tokens[place + 1] == "##happy":
        return {"un": 0.8}
    if tokens[place - 1] == "un":
        return {"##happy": 0.9}
    return {"un": 0.1, "the": 0.5}


def test_a_pseudo_score_hides_each_token_alone_or_the_rest_of_its_word_too() -> None:
    model = Planted(PIECES, givers, "fill-mask")
    (alone,) = score_texts(model, ["the unhappy"], "token")
    (with_the_rest,) = score_texts(model, ["the unhappy"])
    assert alone.log_probabilities == pytest.approx(np.log([0.5, 0.8, 0.9]), abs=1e-5)
    assert with_the_rest.log_probabilities == pytest.approx(np.log([0.5, 0.1, 0.9]), abs=1e-5)
    assert model.asked == 6  # a reading for each token


def test_a_mark_is_no_part_of_the_word_before_it() -> None:
    (read,) = read_texts(Planted(PIECES, givers, "fill-mask"), ["the unhappy."])
    assert words_of(read) == [None, 0, 1, 1, None, None]


def test_a_text_that_is_not_read_to_its_end_says_so_and_a_blank_one_scores_nothing() -> None:
    model = Planted(PIECES, bigrams, "text-generation", max_length=3)
    whole, cut, blank = score_texts(model, ["the dog", "the dog was", " "])
    assert (whole.read.cut, cut.read.cut, blank.read.cut) == (False, True, False)
    assert whole.total == pytest.approx(cut.total)
    assert blank.total == 0
    assert score_texts(model, []) == []


TEXTS = ["the film was good", "a very dull story , and a long one", "watching", ""]


@pytest.mark.parametrize(("family", "task"), [("bert", "fill-mask"), ("gpt2", "text-generation")])
def test_batches_change_nothing(family: str, task: str, tiny_artifact: Callable[..., Artifact]) -> None:
    model = open_predictor(tiny_artifact(family, task, layers=2), 32)
    together = score_texts(model, TEXTS)
    alone = [score_texts(model, [text])[0] for text in TEXTS]
    for one, other in zip(together, alone, strict=True):
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)
    assert together[0].total < -5  # there is something to compare


def test_a_causal_score_is_that_of_a_plain_forward_pass(tiny_artifact: Callable[..., Artifact]) -> None:
    model = TorchLanguageModel(tiny_artifact("llama", "text-generation", layers=2), 32)
    (found,) = score_texts(model, TEXTS[:1])
    ids = torch.tensor([found.read.ids])  # the start token is the tokenizer's own
    with torch.inference_mode():
        known = model.module(ids).logits.log_softmax(-1)
    assert found.log_probabilities == pytest.approx(known[0, :-1].gather(1, ids[0, 1:, None])[:, 0].numpy(), abs=1e-4)
