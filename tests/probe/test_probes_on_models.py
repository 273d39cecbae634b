"""Every probe on real, tiny, seeded models."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from fake_models import context, split
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from assay.core.artifact import Artifact
from assay.core.model.predict import TorchPredictor, open_predictor
from assay.core.plugins import PROBES
from probe.pooling import pooled_states
from probe.probes.attention import AttentionProbe
from probe.probes.fidelity import FidelityProbe
from probe.probes.typos import TypoProbe

WORDS = ["the", "film", "was", "a", "great", "story", "with", "good", "acting", "and", "dull", "music"]
RANDOM = random.Random(5)
TEXTS = [" ".join(RANDOM.choices(WORDS, k=RANDOM.randrange(4, 15))) for _ in range(40)] + ["", "  ", "🎬"]
ROWS = split(TEXTS, [i % 2 for i in range(len(TEXTS))])


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("name", ["linear", "attention", "typos", "fidelity"])
def test_every_probe_runs_with_its_tiny_settings_and_gives_the_same_twice(
    name: str, family: str, tiny_artifact: Callable[..., Artifact]
) -> None:
    model = open_predictor(tiny_artifact(family, layers=2), max_length=32)
    probe = PROBES.get(name)().tiny()
    findings = probe.run(model, context(ROWS, teacher=model))
    assert findings == probe.run(model, context(ROWS, teacher=model))
    assert findings.skipped is None
    assert findings.metrics
    assert all(metric.low <= metric.value <= metric.high for metric in findings.metrics if metric.low is not None)


def test_attention_agrees_with_a_plain_forward_pass_of_one_text(tiny_artifact: Callable[..., Artifact]) -> None:
    artifact = tiny_artifact(layers=2)
    text = "the film was a great story"
    found = AttentionProbe().run(open_predictor(artifact, 32), context(split([text]))).details["layers"]
    model = AutoModelForSequenceClassification.from_pretrained(artifact.path, attn_implementation="eager").eval()
    with torch.no_grad():
        weights = model(
            **AutoTokenizer.from_pretrained(artifact.path)(text, return_tensors="pt"), output_attentions=True
        ).attentions
    for layer, expected in zip(found, weights, strict=True):
        for head, row in zip(layer["heads"], expected[0].double(), strict=True):
            assert head["entropy"] == pytest.approx(float(-(row * row.log()).sum(-1).mean()), abs=1e-5)
            assert head["separators"] == pytest.approx(float(row[:, [0, -1]].sum(-1).mean()), abs=1e-5)


def test_fp32_labels_do_not_depend_on_the_layout(tiny_artifact: Callable[..., Artifact]) -> None:
    model = open_predictor(tiny_artifact(layers=2), max_length=32)
    findings = FidelityProbe().run(model, context(ROWS, teacher=model))
    assert {layout["flips"] for layout in findings.details["layouts"]} == {0}


def test_blank_and_emoji_rows_are_skipped_by_the_attack_and_kept_in_the_accuracy(
    tiny_artifact: Callable[..., Artifact],
) -> None:
    model = open_predictor(tiny_artifact(layers=2), max_length=32)
    right = model.logits(TEXTS).argmax(1)
    findings = TypoProbe(max_edits=1).run(model, context(split(TEXTS, right.tolist())))
    assert findings.details["reasons"]["no word to edit"] == 3
    assert findings.details["attacked"] == len(TEXTS) - 3
    assert findings.metrics[0].value == 1


def test_the_vector_of_a_text_is_that_of_the_token_its_classifier_reads(tiny_artifact: Callable[..., Artifact]) -> None:
    """A decoder's first token sees nothing but itself: it says the same of every text that begins alike."""
    texts = ["the film was good", "the film was awful and slow"]
    for family, reads_last in (("bert", False), ("gpt2", True), ("t5", True)):
        model = TorchPredictor(tiny_artifact(family), 32)
        (batch,) = model.states(texts)
        found = pooled_states(model, texts, ["first"])["first"][-1]
        for row, states, mask in zip(batch.rows, batch.hidden[-1], batch.mask, strict=True):
            expected = states[mask.nonzero()[-1 if reads_last else 0, 0]]
            assert found[row] == pytest.approx(expected.numpy(), abs=1e-6)
        assert abs(found[0] - found[1]).max() > 1e-3
