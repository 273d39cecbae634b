"""Attributions on models whose right answer is known: sums of word vectors, and tiny transformers of every family."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fake_models import Classifier, context, split
from tiny_jobs import carry_out
from tiny_models import WORDS, write_tiny

from assay.core.artifact import Artifact, open_source
from assay.core.errors import NotGiven
from assay.core.model.predict import OnnxPredictor, TorchPredictor
from probe.attribution.agreement import agreement
from probe.attribution.embedding_path import EmbeddingPath
from probe.attribution.explained import INTEGRATED, OCCLUSION, TIMES_INPUT, Explained, explain
from probe.attribution.occlusion import cover_of
from probe.attribution.readings import read_words
from probe.probe import Findings
from probe.probes.attribution import AttributionProbe

METHODS = [INTEGRATED, TIMES_INPUT, OCCLUSION]
DRAWN = random.Random(3)
TEXTS = [" ".join(DRAWN.sample(WORDS.split(), DRAWN.randrange(5, 12))) for _ in range(30)]
MakeArtifact = Callable[..., Artifact]


class BagOfWords(torch.nn.Module):
    """Logits of -2 and 2 times the sum of its tokens' weights. Separators, padding and mask weigh nothing."""

    def __init__(self, weights: dict[int, float], size: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(size, 3)
        self.head = torch.nn.Linear(3, 2)
        self.config = SimpleNamespace(num_labels=2)
        with torch.no_grad():
            self.embedding.weight.zero_()
            self.embedding.weight[list(weights), 1] = torch.tensor(list(weights.values()))
            self.head.weight.copy_(torch.tensor([[0.0, -2.0, 0], [0, 2.0, 0]]))
            self.head.bias.zero_()

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embedding

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.head((self.embedding(input_ids) * attention_mask[..., None]).sum(1)))


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("models") / "bert"
    write_tiny(folder, layers=2)
    return open_source(folder, "text-classification")


@pytest.fixture(scope="module")
def graph(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> OnnxPredictor:
    return OnnxPredictor(carry_out(tmp_path_factory.mktemp("graph"), artifact, [("export_onnx", {})]), 32)


@pytest.fixture(scope="module")
def bag(artifact: Artifact) -> Callable[..., TorchPredictor]:
    """Factory of bags of words with the weights of a few words, or of all words by chance of a seed."""
    read_by_bert = TorchPredictor(artifact, 32)

    def make(weights: dict[str, float] | int, key: str = "bag") -> TorchPredictor:
        model = copy(read_by_bert)
        tokenizer = model.encoder.tokenizer
        if isinstance(weights, int):
            weights = dict(zip(WORDS.split(), np.random.default_rng(weights).normal(size=500).tolist(), strict=False))
        ids = {tokenizer.convert_tokens_to_ids(word): weight for word, weight in weights.items()}
        model.module = BagOfWords(ids, len(tokenizer))  # type: ignore[assignment]
        model.artifact = replace(artifact, key=key)
        return model

    return make


def run(model: Any, teacher: Any, texts: list[str] = TEXTS, **settings: Any) -> Findings:
    probe = AttributionProbe(steps=4, **settings)
    return probe.run(model, context(split(texts, [at % 2 for at in range(len(texts))]), teacher=teacher))


def value(findings: Findings, name: str) -> float:
    (metric,) = [metric for metric in findings.metrics if metric.name == name]
    assert metric.value is not None
    return metric.value


def all_words(found: Explained, method: str) -> np.ndarray:
    return np.concatenate(found.words[method])


def test_on_a_sum_of_word_vectors_all_methods_give_each_words_share(bag: Callable[..., TorchPredictor]) -> None:
    found = explain(bag(5), TEXTS, np.ones(len(TEXTS), int), "pad", 3)
    weight = dict(zip(WORDS.split(), np.random.default_rng(5).normal(size=500).tolist(), strict=False))
    right = [2 * weight[word] for text in TEXTS for word in text.split()]
    for method in METHODS:
        np.testing.assert_allclose(all_words(found, method), right, atol=1e-4)
    assert np.median(found.completeness) < 1e-5


def test_a_planted_word_comes_first_and_gets_nothing_from_a_model_that_ignores_it(
    bag: Callable[..., TorchPredictor],
) -> None:
    text = "the film was truly great, and the story unseen"  # the comma is of the word, the last word has many pieces
    reads, ignores = ({"great": 3.0, "film": 1.5, "the": -0.5}, {"film": 1.5, "the": -0.5})
    for method in METHODS:
        (words,) = explain(bag(reads), [text], None, "pad", 3).words[method]
        np.testing.assert_allclose(words, [-1, 3, 0, 0, 6, 0, -1, 0, 0], atol=1e-5)
        (words,) = explain(bag(ignores), [text], None, "pad", 3).words[method]
        assert words[4] == 0
        assert words.argmax() == 1


def test_a_model_agrees_with_itself_and_with_another_by_chance_alone(bag: Callable[..., TorchPredictor]) -> None:
    teacher = bag(1, "teacher")
    itself, other = run(bag(1), teacher, TEXTS[:8]), run(bag(2), teacher, target="label")
    for method in METHODS:
        assert value(itself, f"{method}_agreement") == pytest.approx(1)
        assert value(itself, f"{method}_top_overlap") == 1
        assert abs(value(other, f"{method}_agreement")) < 0.3
        (about,) = [item for item in other.details["agreement"] if (item["method"], item["rows"]) == (method, "all")]
        assert about["chance"] == pytest.approx(np.mean([3 / len(text.split()) for text in TEXTS]))
        assert value(other, f"{method}_top_overlap") == pytest.approx(about["chance"], abs=0.15)


def test_flipped_rows_stand_apart(bag: Callable[..., TorchPredictor]) -> None:
    """The variant reads one word the other way round, which turns the answer only where nothing else is said."""
    said = {"great": 1.0, "good": 2.0, "film": 0.1, "plot": 0.2, "dog": 0.3}
    texts = ["great film plot dog"] * 2 + ["great good film plot dog"] * 3
    findings = run(bag(said | {"great": -1.0}), bag(said, "teacher"), texts)
    told = {item["rows"]: item for item in findings.details["agreement"] if item["method"] == OCCLUSION}
    assert {kind: item["n"] for kind, item in told.items()} == {"all": 5, "same answer": 3, "flipped": 2}
    assert told["same answer"]["spearman"] == pytest.approx(0.4)  # ranks 1 5 2 3 4 and 4 5 1 2 3
    assert told["flipped"]["spearman"] == pytest.approx(0.2)  # 4 3 2 1, what speaks for the other class, and 4 1 2 3
    assert told["all"]["spearman"] == pytest.approx((3 * 0.4 + 2 * 0.2) / 5)
    assert [example["row"] for example in findings.details["examples"]][:2] == [1, 2]
    assert findings.details["examples"][0]["answer"] == "neg"
    assert findings.details["examples"][0]["teacher_answer"] == "pos"


def test_the_top_words_carry_the_answer_and_words_by_chance_less(bag: Callable[..., TorchPredictor]) -> None:
    texts = ["great film was a slow plot of the dog"] * 20
    (found,) = [
        item
        for item in run(bag({"great": 2.0, "film": 1.0}), bag(1, "teacher"), texts).details["faithfulness"]
        if item["method"] == OCCLUSION
    ]
    sure = 1 / (1 + np.exp(-12))
    assert found["comprehensiveness"] == pytest.approx(sure - 0.5, abs=1e-6)
    assert found["sufficiency"] == pytest.approx(0, abs=1e-6)
    assert found["comprehensiveness_random"] < 0.25 < found["sufficiency_random"]
    assert found["comprehensiveness_gain_low"] > 0


def test_separators_get_nothing_and_texts_beside_change_nothing(artifact: Artifact) -> None:
    model = TorchPredictor(artifact, 32)
    alone, beside = (explain(model, texts, None, "pad", 8) for texts in (TEXTS[:1], TEXTS[:8]))
    for method in METHODS:
        np.testing.assert_allclose(alone.words[method][0], beside.words[method][0], atol=1e-5)
    (reading,) = read_words(model.encoder, TEXTS[:1])
    with EmbeddingPath(model.module, None).open() as path:
        found = path.gradients(reading.ids, reading.of_words, 0, 8)
    for values in (found.integrated, found.times_input):
        assert values[0] == values[-1] == 0
        assert (values[1:-1] != 0).all()


FAMILIES = ["albert", "mpnet", "deberta-v2", "gpt2", "llama", "bart", "t5"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_led_from_the_baseline_to_the_text_and_its_sums_are_complete(
    family: str, tiny_artifact: MakeArtifact
) -> None:
    """At the baseline the model answers as if its table held the pad token's row for every word."""
    model = TorchPredictor(tiny_artifact(family, layers=2), 32)
    model.module.double()
    (reading,) = read_words(model.encoder, [TEXTS[0] + " unseen"])
    pad = model.encoder.tokenizer.pad_token_id
    ids = torch.tensor([reading.ids])
    with EmbeddingPath(model.module, pad).open() as path:
        found = path.gradients(reading.ids, reading.of_words, 1, 96)
    table = model.module.get_input_embeddings().weight
    with torch.no_grad():
        plain = model.module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, 1]
        table[ids[0, torch.from_numpy(reading.of_words)]] = table[pad].clone()
        baseline = model.module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, 1]
    assert found.logit == pytest.approx(float(plain))
    assert found.baseline_logit == pytest.approx(float(baseline))
    assert found.completeness_error < 1e-3
    assert reading.sums(found.integrated).sum() == pytest.approx(found.integrated.sum())


def test_a_graph_gives_occlusion_as_its_weights_do_and_says_that_gradients_are_missing(
    artifact: Artifact, graph: OnnxPredictor
) -> None:
    model = TorchPredictor(artifact, 32)
    from_graph, from_torch = (explain(each, TEXTS[:12], None, "pad", 4) for each in (graph, model))
    assert list(from_graph.words) == [OCCLUSION]
    np.testing.assert_allclose(all_words(from_graph, OCCLUSION), all_words(from_torch, OCCLUSION), atol=1e-4)
    findings = run(graph, model, TEXTS[:12])
    assert findings.details["notes"] == ["gradients are not available on an ONNX graph: occlusion alone is reported"]
    assert value(findings, "occlusion_agreement") > 0.99
    assert {metric.name.split("_")[0] for metric in findings.metrics} == {"occlusion"}


def test_too_few_steps_are_told_of(artifact: Artifact) -> None:
    model = TorchPredictor(artifact, 32)
    findings = AttributionProbe(steps=1, baseline="zero").run(model, context(split(TEXTS[:12]), teacher=model))
    (note,) = findings.details["notes"]
    assert "integrated gradients of 1 steps miss the change of the logit by" in note
    assert value(findings, "completeness_error_median") > 0.05
    assert findings.details["agreement"] == []  # the teacher itself


def test_words_that_are_cut_off_are_left_out(bag: Callable[..., TorchPredictor]) -> None:
    long = " ".join(["film", "great"] * 30)
    (reading,) = read_words(bag(1).encoder, [long])
    assert len(reading.read) == 30  # of 32 tokens two are separators
    (words,) = explain(bag({"film": 1.0}), [long], None, "pad", 2).words[OCCLUSION]
    np.testing.assert_allclose(words, [2, 0] * 15 + [0] * 30, atol=1e-5)


@pytest.mark.parametrize(
    ("tokens", "cover"),
    [((5, 6, 0, 1), 5), ((None, 6, 0, 1), 6), ((None, 1, 1, 1), None), ((None, None, 0, 1), None)],
)
def test_a_word_is_covered_by_no_token_that_ends_or_pads_texts(tokens: tuple[Any, ...], cover: int | None) -> None:
    names = ("mask_token_id", "unk_token_id", "pad_token_id", "eos_token_id")
    assert cover_of(SimpleNamespace(**dict(zip(names, tokens, strict=True)), bos_token_id=None)) == cover


def test_constant_attributions_have_no_rank_and_do_not_count() -> None:
    pair = agreement([np.arange(4.0), np.zeros(4)], [np.arange(4.0), np.arange(4.0)], top=2)
    told = pair.told()
    assert (told["n"], told["spearman"], told["low"]) == (1, 1, None)


def test_what_cannot_be_explained_is_refused_or_skipped_with_the_reason(
    bag: Callable[..., TorchPredictor], tiny_artifact: MakeArtifact
) -> None:
    model = bag(1)
    with pytest.raises(NotGiven, match="does not show its tokenizer"):
        run(Classifier(lambda text: [0.0, 1.0]), model)
    rows = split(TEXTS)
    with pytest.raises(NotGiven, match=r"attribution\.target: label wants one label a row"):
        AttributionProbe(target="label").run(model, context(rows, teacher=model, task="multi-label-classification"))
    decoder = TorchPredictor(tiny_artifact("gpt2", layers=1), 32)
    with pytest.raises(NotGiven, match=r"has no mask token to start from; set attribution\.baseline to pad or zero"):
        run(decoder, decoder, baseline="mask")
    assert run(model, model, ["", "a film"]).skipped == (
        "no test row has more than 3 words that are read: lower attribution.top"
    )


def test_rows_with_a_hidden_label_are_left_out_where_the_label_is_explained(bag: Callable[..., TorchPredictor]) -> None:
    rows = split(TEXTS[:4], [-1, 1, 0, -1])
    findings = AttributionProbe(target="label").run(bag(1), context(rows, teacher=bag(2, "teacher")))
    assert findings.details["n_rows"] == 2
    assert {example["row"] for example in findings.details["examples"]} == {2, 3}
