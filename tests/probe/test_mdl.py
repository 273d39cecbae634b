from itertools import pairwise
from zlib import crc32

import numpy as np
import pytest
import torch
from fake_models import Classifier, Reader, context, split

from assay.core.errors import NotGiven
from probe.online_code import STRENGTHS, bits_with, online_bits, portions
from probe.probe import Findings
from probe.probes.mdl import MdlProbe

RNG = np.random.default_rng(5)
LABELS = RNG.permutation(np.arange(400) % 2).tolist()
TEXTS = [f"w{RNG.integers(60)} {'x ' * RNG.integers(3, 20)}{('bad', 'good')[label]}" for label in LABELS]


def noise(text: str) -> list[float]:
    return np.random.default_rng(crc32(text.encode())).normal(size=6).tolist()


def planted(text: str) -> list[list[float]]:
    """Noise in the embeddings, the class but for noise after layer 2, the class after layer 5."""
    label = float(text.endswith("good"))
    return [noise(text), [label + noise(text)[0], *noise(text)[1:]], [label, *noise(text)[1:]]]


def run(**settings: object) -> Findings:
    model = Reader(planted, layers=(2, 5), heads=((0,), (0,)), padding=2)
    rows = split(TEXTS, LABELS)
    return MdlProbe(**{"tasks": ["label"], "samples": 400} | settings).run(model, context(split([]), rows))  # type: ignore[arg-type]


def test_the_easier_a_property_is_read_the_shorter_is_the_code() -> None:
    (task,) = run().details["tasks"]
    layers = {layer["layer"]: layer for layer in task["layers"]}
    assert list(layers) == [0, 3, 6]
    assert task["uniform_bits"] == 400
    assert 0.85 < layers[0]["compression"] < 1.02
    assert 1.05 < layers[3]["compression"] < layers[6]["compression"]
    assert layers[6]["compression"] > 2.5
    assert all(0.85 < layer["control_compression"] < 1.1 for layer in task["layers"])
    assert all(layer["compression"] == pytest.approx(400 / layer["bits"]) for layer in task["layers"])


def test_headlines_are_those_of_the_last_layer_and_no_test_rows_are_needed() -> None:
    findings = run(tasks=["label", "length"], samples=200)
    names = [metric.name for metric in findings.metrics]
    assert names == [
        "label_compression",
        "label_control_compression",
        "length_compression",
        "length_control_compression",
    ]
    assert findings.metrics[0].value == findings.details["tasks"][0]["layers"][-1]["compression"]
    assert findings.metrics[0].n == 200


def test_one_class_and_regression_have_nothing_to_code() -> None:
    model = Reader(planted, layers=(2, 5), heads=((0,), (0,)))
    one = MdlProbe(tasks=["label"]).run(model, context(split([]), split(TEXTS)))
    assert one.details["tasks"][0]["skipped"] == "not trainable: all 400 train rows are of one class"
    assert one.metrics == []
    scores = split(TEXTS, np.linspace(0, 1, 400))  # type: ignore[arg-type]
    none = MdlProbe(tasks=["label"]).run(model, context(split([]), scores, task="text-regression"))
    assert none.details["tasks"][0]["skipped"].startswith("not trainable: 0 train")


def test_logits_alone_are_not_enough() -> None:
    with pytest.raises(NotGiven, match="logits only"):
        MdlProbe().run(Classifier(lambda text: [1.0, 0.0]), context(split(TEXTS, LABELS)))


def test_portions_are_those_of_the_paper_that_can_be_fitted_on() -> None:
    assert portions(100_000) == [100, 200, 400, 800, 1600, 3200, 6250, 12500, 25000, 50000, 100000]
    assert portions(600) == [10, 19, 38, 75, 150, 300, 600]
    assert portions(12) == [12]


@pytest.mark.parametrize("classes", [2, 4])
def test_random_labels_cost_about_the_uniform_code(classes: int) -> None:
    rng = np.random.default_rng(1)
    states, labels = torch.from_numpy(rng.normal(size=(800, 5)).astype(np.float32)), rng.integers(classes, size=800)
    (bits,) = online_bits(states, [labels], classes)
    assert 800 * np.log2(classes) * 0.99 < bits < 800 * np.log2(classes) * 1.06


def test_states_that_vary_in_nothing_give_the_code_of_the_class_shares() -> None:
    """That is the adaptive code of Laplace, frozen within a portion; here all but the first portion cost their entropy
    under the shares before, which are the same in each portion."""
    labels = np.tile([0, 0, 0, 1], 200)
    (bits,) = online_bits(torch.zeros(800, 3), [labels], 2)
    ends = portions(800)
    expected = float(ends[0])
    for start, end in pairwise(ends):
        counts = np.bincount(labels[:start], minlength=2)
        shares = (counts + 1) / (start + 2)
        expected -= np.log2(shares[labels[start:end]]).sum()
    assert bits == pytest.approx(expected, rel=1e-3)


def test_the_code_is_at_most_two_bits_longer_than_that_of_the_best_strength() -> None:
    """Both where the best is to trust the states and where it is not to."""
    rng = np.random.default_rng(3)
    states = torch.from_numpy(rng.normal(size=(400, 20)).astype(np.float32))
    clear, none = (states[:, 0] > 0).long().numpy(), rng.integers(2, size=400)
    for labels, best in ((clear, 1.0), (none, 0.001)):
        each = {strength: bits_with(strength, states, [labels], 2)[0] for strength in STRENGTHS}
        assert min(each, key=each.__getitem__) == best
        (bits,) = online_bits(states, [labels], 2)
        assert min(each.values()) - 2 <= bits <= min(each.values()) + 2
        assert max(each.values()) > bits + 20


def test_a_class_that_comes_late_costs_bits_and_not_infinity() -> None:
    labels = np.repeat([0, 1, 2], [150, 150, 300])
    rng = np.random.default_rng(2)
    states = torch.from_numpy(rng.normal(size=(600, 4)).astype(np.float32))
    (bits,) = online_bits(states, [labels], 3)
    assert 600 * np.log2(3) < bits < 600 * 12


def test_so_few_rows_that_nothing_is_fitted_say_nothing() -> None:
    texts = [f"row {at} " + "word " * (at % 7) for at in range(40)]
    for samples, said in ((18, "18 rows are one portion, so nothing is fitted; needs 20"), (19, None)):
        (task,) = MdlProbe(tasks=["length"], samples=samples).run(Reader(), context(split(texts))).details["tasks"]
        assert task["skipped"] == said
        assert bool(task["layers"]) == (said is None)
