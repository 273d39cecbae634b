"""Figures of language models, against values worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from assay.core.artifact import Artifact
from assay.core.evaluate_language import Answers, _chunks, answer, metrics_of
from assay.core.model.language import LanguageModel
from assay.core.model.predict import open_predictor
from assay.core.model.questions import Question

MakeArtifact = Callable[..., Artifact]
TEXTS = ["the film was great", "a dull and slow story", "", "bad"]


def named(answers: Answers) -> dict[str, Any]:
    return {metric.name: metric for metric in metrics_of(answers)}


def test_sums_over_texts_by_sums_of_tokens() -> None:
    tokens, nll, right, read = np.array([3.0, 1.0]), np.log([8.0, 2.0]), np.array([1.0, 1.0]), np.array([4.0, 2.0])
    found = named(Answers(tokens, nll, right, read))
    assert found["perplexity"].value == pytest.approx(2)  # (3 + 1) bits of four tokens
    assert found["perplexity"].n == 4
    assert found["token_accuracy"].value == 0.5
    assert found["bits_per_byte"].value == pytest.approx(4 / 6)
    same, kl = np.array([3.0, 0.0]), np.array([1.0, 1.0])
    beside = named(Answers(tokens, nll, right, None, nll - np.log(2), same, kl))
    assert beside["perplexity_ratio"].value == pytest.approx(2**0.5)  # two bits more in four tokens
    assert beside["token_loyalty"].value == 0.75
    assert beside["token_kl"].value == 0.5


@pytest.mark.parametrize("max_length", [4, 32])
def test_bytes_are_those_of_the_tokens_that_are_asked(max_length: int, tiny_artifact: MakeArtifact) -> None:
    model = cast(LanguageModel, open_predictor(tiny_artifact("gpt2", task="text-generation", layers=1), max_length))
    texts = [*TEXTS, "a é film"]
    for text, ids, size in zip(texts, model.encoder.ids(texts), answer(model, texts).bytes, strict=True):
        whole, first = (model.encoder.tokenizer.decode(part) for part in (ids, ids[:1]))
        assert size == (len(whole.encode()) - len(first.encode()) if text else 0)


def test_an_untrained_uniform_model_is_as_perplexed_as_it_has_tokens(tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact("bert", task="fill-mask", layers=1)
    model = cast(LanguageModel, open_predictor(source, 32))
    for parameter in cast(Any, model).module.cls.parameters():
        parameter.data.zero_()
    found = named(answer(model, TEXTS))
    assert found["perplexity"].value == pytest.approx(len(model.encoder.tokenizer), rel=1e-5)
    assert "bits_per_byte" not in found


@pytest.mark.parametrize(("family", "task"), [("bert", "fill-mask"), ("gpt2", "text-generation")])
def test_beside_itself_a_model_loses_nothing_and_beside_another_it_does(
    family: str, task: str, tiny_artifact: MakeArtifact
) -> None:
    sources = [tiny_artifact(family, task=task, layers=1, seed=seed) for seed in (0, 1)]
    model, other = (cast(LanguageModel, open_predictor(source, 32)) for source in sources)
    alone, beside = answer(model, TEXTS), answer(model, TEXTS, model)
    assert alone.nll == pytest.approx(beside.nll, abs=1e-4)
    assert (alone.tokens == beside.tokens).all()
    assert alone.tokens[2] == 0  # nothing is asked of a blank text
    itself = named(beside)
    assert itself["perplexity_ratio"].value == pytest.approx(1)
    assert itself["token_loyalty"].value == 1
    assert itself["token_kl"].value == pytest.approx(0, abs=1e-12)
    moved = named(answer(model, TEXTS, other))
    assert moved["token_kl"].value > 0.01


def test_other_tokens_are_not_held_against_each_other(tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact("bert", task="fill-mask", layers=1)
    model, roberta = (
        cast(LanguageModel, open_predictor(each, 32))
        for each in (source, tiny_artifact("roberta", task="fill-mask", layers=1))
    )
    unlike, alike = answer(model, TEXTS, roberta), answer(model, TEXTS, model)
    assert (unlike.kl, unlike.paired, alike.paired) == (None, False, True)


def test_no_tokens_no_figures(tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact("bert", task="fill-mask", layers=1)
    model = cast(LanguageModel, open_predictor(source, 32))
    nothing, something = answer(model, ["", " "]), answer(model, ["", "film"])
    assert metrics_of(nothing) == []
    assert nothing.obstacle == "none of the 2 test texts has a token that can be asked for"
    assert something.obstacle is None


def test_distributions_are_held_for_a_bounded_number_of_places() -> None:
    asked = [Question([1] * size, [2] * size) for size in (3, 1, 9, 2, 0, 4)]
    chunks = list(_chunks(asked, places=6))
    assert sorted(row for chunk in chunks for row in chunk) == list(range(len(asked)))
    assert [[len(asked[row].places) for row in chunk] for chunk in chunks] == [[0, 1, 2, 3], [4], [9]]
    assert list(_chunks([])) == []
