import random
from zlib import crc32

import numpy as np
import pytest
from fake_models import Classifier, Reader, context, split
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from assay.core.errors import AssayError, NotGiven
from probe.probe import Findings
from probe.probes.linear import LinearProbe
from probe.tasks import control_labels

SUBJECTS = ["film", "story", "plot", "actor", "scene", "music"]


def corpus(n: int, seed: int) -> tuple[list[str], list[int]]:
    """Texts of 5 to 24 words whose class is told by their last word."""
    rng = random.Random(seed)
    labels = [rng.randrange(2) for _ in range(n)]
    heads = [
        " ".join(rng.choice(SUBJECTS) + str(rng.randrange(9)) for _ in range(rng.randrange(4, 24))) for _ in labels
    ]
    return [f"{head} {('bad', 'good')[label]}" for head, label in zip(heads, labels, strict=True)], labels


TRAIN, TEST = split(*corpus(300, 1)), split(*corpus(150, 2))


def noise(text: str) -> list[float]:
    return np.random.default_rng(crc32(text.encode())).normal(size=4).tolist()


def planted(text: str) -> list[list[float]]:
    """Noise in the embeddings, the class and the length after layer 2, noise again after layer 5."""
    known = [float(text.endswith("good")), len(text.split()) / 10, *noise(text)[:2]]
    return [noise(text), known, noise(text[::-1])]


def run(reader: Reader | None = None, **settings: object) -> Findings:
    model = reader or Reader(planted, layers=(2, 5), heads=((0,), (0,)), padding=3)
    return LinearProbe(**settings).run(model, context(TEST, TRAIN))  # type: ignore[arg-type]


def accuracies(findings: Findings, task: str, pooling: str = "mean") -> dict[int, float]:
    (found,) = [item for item in findings.details["tasks"] if item["task"] == task]
    return {layer["layer"]: layer["accuracy"] for layer in found["layers"] if layer["pooling"] == pooling}


def test_only_the_layer_that_holds_the_answer_scores_and_it_has_its_original_number() -> None:
    for pooling in ("mean", "first"):
        found = accuracies(run(tasks=["label"]), "label", pooling)
        assert list(found) == [0, 3, 6]
        assert found[3] == 1
        assert max(found[0], found[6]) < 0.62  # 150 rows at chance stay below 0.5 + 3 standard errors


def test_a_variant_is_compared_with_the_teacher_row_by_row() -> None:
    """A variant whose layer 2 forgot the class; the embedding output is the same. The teacher has no difference."""
    full = Reader(planted, layers=(2, 5), heads=((0,), (0,)))
    forgot = Reader(lambda text: [planted(text)[at] for at in (0, 2)], layers=(2,), heads=((0,),))
    ctx = context(TEST, TRAIN, teacher=full)
    probe = LinearProbe(tasks=["label"])
    assert probe.run(full, ctx).details["tasks"][0]["teacher"] == []
    found = probe.run(forgot, ctx)
    changes = {(each["layer"], each["pooling"]): each for each in found.details["tasks"][0]["teacher"]}
    assert list(changes) == [(0, "mean"), (3, "mean"), (0, "first"), (3, "first")]
    assert changes[0, "mean"]["change"] == changes[0, "mean"]["low"] == changes[0, "mean"]["high"] == 0
    assert changes[3, "mean"]["high"] < -0.3
    assert changes[3, "mean"]["n"] == len(TEST)
    last = {metric.name: metric for metric in found.metrics}["label_change"]
    assert abs(last.value) < 0.2, "last layer against last: both are noise"
    assert last.low <= 0 <= last.high


def test_length_is_read_where_it_is_and_not_elsewhere() -> None:
    found = accuracies(run(tasks=["length"]), "length")
    assert found[3] > 0.6
    assert max(found[0], found[6]) < 0.38


def test_states_that_do_not_know_word_order_score_chance_on_bigram_shift() -> None:
    bags = Reader(lambda text: [[float(len(text)), *noise(" ".join(sorted(text.split())))]])
    found = run(bags, tasks=["bigram_shift"])
    assert abs(accuracies(found, "bigram_shift")[0] - 0.5) < 0.13


def test_selectivity_is_high_for_the_class_and_none_for_the_memorised_first_word() -> None:
    (task,) = run(tasks=["label"]).details["tasks"]
    (layer,) = [item for item in task["layers"] if (item["layer"], item["pooling"]) == (3, "mean")]
    assert layer["low"] < layer["accuracy"] <= layer["high"] == 1
    assert layer["selectivity"] == pytest.approx(layer["accuracy"] - layer["control"])
    assert layer["control"] < 0.65
    first_words = sorted({text.split()[0] for text in TRAIN.texts + TEST.texts})
    one_hot = dict(zip(first_words, np.eye(len(first_words)).tolist(), strict=True))
    (task,) = run(Reader(lambda text: [one_hot[text.split()[0]]]), tasks=["label"]).details["tasks"]
    assert task["layers"][0]["control"] > 0.9
    assert task["layers"][0]["selectivity"] < -0.25


def test_padding_changes_nothing() -> None:
    pads = [
        Reader(planted, layers=(2, 5), heads=((0,), (0,)), padding=pad, left=left)
        for pad, left in ((0, False), (9, True))
    ]
    tight, wide = (run(reader).details for reader in pads)
    assert tight == wide


def test_same_seed_same_findings_and_headlines_are_those_of_the_last_layer() -> None:
    findings = run(tasks=["label", "length"])
    assert findings == run(tasks=["label", "length"])
    names = [metric.name for metric in findings.metrics]
    assert names == ["label_accuracy", "label_selectivity", "length_accuracy", "length_selectivity"]
    assert findings.metrics[0].value == accuracies(findings, "label")[6]
    assert findings.metrics[0].n == 150


def test_a_job_of_one_class_shows_the_baseline_and_the_other_tasks_go_on() -> None:
    one = split(TRAIN.texts, [0] * len(TRAIN))
    model = Reader(planted, layers=(2, 5), heads=((0,), (0,)))
    findings = LinearProbe(tasks=["label", "length"]).run(model, context(split(TEST.texts), one))
    label, length = findings.details["tasks"]
    assert label["skipped"] == "not trainable: all 300 train rows are of one class"
    assert (label["majority"], label["layers"]) == (1.0, [])
    assert length["skipped"] is None
    assert length["layers"]
    assert {metric.name for metric in findings.metrics} == {"length_accuracy", "length_selectivity"}


def test_rare_and_test_only_classes_do_not_stop_the_probe() -> None:
    train, test = split(TRAIN.texts[:41], [0] * 40 + [1]), split(TEST.texts[:20], [0] * 19 + [2])
    model = Reader(planted, layers=(2, 5), heads=((0,), (0,)))
    (task,) = LinearProbe(tasks=["label"]).run(model, context(test, train)).details["tasks"]
    assert task["majority"] == pytest.approx(0.95)
    assert all(layer["accuracy"] <= 0.95 for layer in task["layers"])


def test_regression_has_no_class_to_probe_for() -> None:
    scores = split(TRAIN.texts, np.linspace(0, 1, len(TRAIN)))  # type: ignore[arg-type]
    model = Reader(planted, layers=(2, 5), heads=((0,), (0,)))
    findings = LinearProbe(tasks=["label", "length"]).run(model, context(scores, scores, task="text-regression"))
    label, length = findings.details["tasks"]
    assert "0 train" in label["skipped"]
    assert length["skipped"] is None


def test_blank_texts_give_finite_features() -> None:
    texts = ["", "   ", "\t\n", "\u200b", "🎬", *TRAIN.texts[:40]]
    findings = LinearProbe(tasks=["length"]).run(
        Reader(lambda text: [noise(text)]), context(split(texts), split(texts))
    )
    assert all(0 <= layer["accuracy"] <= 1 for layer in findings.details["tasks"][0]["layers"])


def test_logits_alone_are_not_enough_and_missing_layers_are_an_error() -> None:
    with pytest.raises(NotGiven, match="logits only"):
        LinearProbe().run(Classifier(lambda text: [1.0, 0.0]), context(TEST, TRAIN))
    with pytest.raises(AssayError, match="1 hidden states, expected 3"):
        run(Reader(lambda text: [noise(text)], layers=(0, 1), heads=((0,), (0,))))


def test_accuracies_are_those_of_scikit_learn_layer_by_layer() -> None:
    """Also that of the control, whose labels are drawn by the first word."""
    (task,) = run(tasks=["label"], poolings=["mean"]).details["tasks"]
    states = [[np.array([planted(text)[layer] for text in part.texts]) for part in (TRAIN, TEST)] for layer in range(3)]
    controls = [control_labels(part.texts, TRAIN.labels, 13) for part in (TRAIN, TEST)]
    for found, (train, test) in zip(task["layers"], states, strict=True):
        expected = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, tol=1e-8))
        assert found["accuracy"] == expected.fit(train, TRAIN.labels).score(test, TEST.labels)
        assert found["control"] == expected.fit(train, controls[0]).score(test, controls[1])
        assert found["converged"] is True
