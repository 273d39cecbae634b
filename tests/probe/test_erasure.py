from collections.abc import Callable
from zlib import crc32

import numpy as np
import pytest
import torch
from fake_models import Classifier, Reader, context, split

from assay.core.artifact import Artifact
from assay.core.errors import NotGiven
from assay.core.model.predict import TorchPredictor, open_predictor
from assay.run.opened import remembering
from probe.amnesia import Amnesia
from probe.leace import Eraser, fit_leace
from probe.probe import Findings
from probe.probes.erasure import ErasureProbe
from probe.tasks import Examples

RNG = np.random.default_rng(7)
LABELS = (RNG.random(500) < 0.6).astype(int).tolist()
TEXTS = [f"n{i} {'x ' * RNG.integers(3, 20)}{('bad', 'good')[label]}" for i, label in enumerate(LABELS)]
TRAIN, TEST = split(TEXTS[:300], LABELS[:300]), split(TEXTS[300:], LABELS[300:])


def planted(text: str) -> list[list[float]]:
    """Noise in the embeddings; the class, exactly and in one dimension of its own, after layer 4."""
    noise = np.random.default_rng(crc32(text.encode())).normal(size=5).tolist()
    return [noise, [float(text.endswith("good")), *noise[1:]]]


def run(**settings: object) -> Findings:
    model = Reader(planted, layers=(4,), heads=((0,),), padding=2)
    probe = ErasureProbe(**{"tasks": ["label"], "amnesic": "none"} | settings)  # type: ignore[arg-type]
    return probe.run(model, context(TEST, TRAIN))


def share_told_by_labels() -> float:
    """Variance of the train states that a regression on the labels explains: all that erasing them has to move, where
    the states tell the labels exactly."""
    states, labels = np.array([planted(text)[1] for text in TRAIN.texts]), TRAIN.labels
    told = states[labels == 1].mean(0) - states[labels == 0].mean(0)
    return float((told**2).sum() * labels.var() / states.var(0).sum())


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_property_that_was_read_is_read_no_more(pooling: str) -> None:
    """Also where a dimension held nothing else, so that only rounding is left of it."""
    (task,) = run(pooling=pooling).details["tasks"]
    assert [layer["layer"] for layer in task["layers"]] == [0, 5]
    last = task["layers"][1]
    assert last["before"] == 1
    assert last["after"] == task["majority"] == pytest.approx(np.mean(LABELS[300:]))
    assert last["rank"] == 1
    assert last["moved"] == pytest.approx(share_told_by_labels(), rel=1e-4)
    assert last["after_low"] < last["after"] < last["after_high"]


def test_headlines_are_those_of_the_last_layer() -> None:
    findings = run(tasks=["label", "length"])
    assert [metric.name for metric in findings.metrics] == ["label_after_erasure", "length_after_erasure"]
    assert findings.metrics[0].value == findings.details["tasks"][0]["layers"][-1]["after"]
    assert findings.details["tasks"][1]["layers"][-1]["rank"] == 3
    assert findings.details["model"] is None


def test_one_class_is_skipped_with_its_baseline() -> None:
    model = Reader(planted, layers=(4,), heads=((0,),))
    findings = ErasureProbe(tasks=["label"], amnesic="none").run(model, context(split(TEST.texts), split(TRAIN.texts)))
    (task,) = findings.details["tasks"]
    assert "one class" in task["skipped"]
    assert (task["majority"], task["layers"], findings.metrics) == (1, [], [])


def test_models_whose_states_cannot_be_changed_are_told_so() -> None:
    with pytest.raises(NotGiven, match="logits only"):
        ErasureProbe().run(Classifier(lambda text: [1.0, 0.0]), context(TEST, TRAIN))
    with pytest.raises(NotGiven, match="no torch module"):
        run(amnesic="last")


@pytest.fixture
def model(tiny_artifact: Callable[..., Artifact]) -> TorchPredictor:
    opened = open_predictor(tiny_artifact(layers=3), 32)
    assert isinstance(opened, TorchPredictor)
    return opened


WORDS = ["the", "film", "great", "story", "good", "acting", "dull", "music", "boring", "plot"]
SENTENCES = [" ".join(RNG.choice(WORDS, size=RNG.integers(4, 14))) for _ in range(160)]


def own_answers(model: TorchPredictor) -> tuple[np.ndarray, Eraser]:
    """The model's answers, about half of each, and the eraser of its answers at the first token of the last layer."""
    logits = model.logits(SENTENCES)
    margin = logits[:, 1] - logits[:, 0]
    model.module.classifier.bias.data[1] -= float(np.median(margin))
    answers = model.logits(SENTENCES).argmax(1)
    states = torch.zeros(len(SENTENCES), 32)
    for batch in model.states(SENTENCES):
        states[batch.rows] = batch.hidden[-1][:, 0]
    return answers, fit_leace(states, torch.from_numpy(answers))


def test_a_model_that_loses_its_answers_before_the_head_loses_its_accuracy_and_random_directions_do_not_matter(
    model: TorchPredictor,
) -> None:
    answers, eraser = own_answers(model)
    amnesia = Amnesia.of(model, Examples(SENTENCES, answers), seed=1)
    found = amnesia.behind(2, eraser)
    assert amnesia.untouched() == {"accuracy": 1.0, "n": 160}
    assert found["erased"] < 0.75
    assert found["random"] > 0.8
    assert found["change"] == pytest.approx(found["erased"] - found["random"])
    assert found["low"] <= found["change"] <= found["high"] < 0
    assert (model.logits(SENTENCES).argmax(1) == answers).all()


def test_answers_that_a_run_remembers_are_not_taken_for_those_of_the_changed_model(model: TorchPredictor) -> None:
    """A run's predictor answers texts it has seen from memory; what a hook changes must be asked anew."""
    answers, eraser = own_answers(model)
    alone = Amnesia.of(model, Examples(SENTENCES, answers), seed=1).behind(2, eraser)
    remembered = remembering(model)
    assert isinstance(remembered, TorchPredictor)
    remembered.logits(SENTENCES)
    assert Amnesia.of(remembered, Examples(SENTENCES, answers), seed=1).behind(2, eraser) == alone
    assert alone["change"] < 0
    assert (remembered.logits(SENTENCES).argmax(1) == answers).all()


@pytest.mark.slow
def test_every_layer_or_the_last_is_erased_under_its_own_number(model: TorchPredictor) -> None:
    answers, _ = own_answers(model)
    rows = split(SENTENCES, answers.tolist())
    each, last = (
        ErasureProbe(tasks=["label", "length"], amnesic=where, samples=60, test_samples=30).run(model, context(rows))
        for where in ("each", "last")
    )
    for task, alone in zip(each.details["tasks"], last.details["tasks"], strict=True):
        assert [found["layer"] for found in task["amnesic"]] == [1, 2, 3]
        assert alone["amnesic"] == task["amnesic"][-1:]
    assert each.details["model"] == {"accuracy": 1.0, "n": 30}
    names = [metric.name for metric in each.metrics]
    assert names == ["label_after_erasure", "label_amnesic_change", "length_after_erasure", "length_amnesic_change"]
    assert each.metrics == last.metrics
    assert each.metrics[1].value == each.details["tasks"][0]["amnesic"][-1]["change"]


def test_without_classes_the_erasure_goes_on_and_nothing_is_said_of_the_models_task(model: TorchPredictor) -> None:
    rows = split(SENTENCES, np.linspace(0, 1, 160))  # type: ignore[arg-type]
    findings = ErasureProbe(tasks=["length"]).run(model, context(rows, task="text-regression"))
    assert findings.details["model"] is None
    assert [metric.name for metric in findings.metrics] == ["length_after_erasure"]
