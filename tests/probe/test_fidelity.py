import numpy as np
import pytest
from fake_models import Classifier, context, split

from assay.core.errors import NotGiven
from probe.probe import Findings
from probe.probes.fidelity import FidelityProbe

TEXTS = [f"text {i}" for i in range(20)]
LABELS = [i % 2 for i in range(20)]


def right_except(*wrong: int) -> Classifier:
    def answer(text: str) -> list[float]:
        row = int(text.split()[1])
        label = LABELS[row] ^ (row in wrong)
        return [2.0 * (1 - label), 2.0 * label]

    return Classifier(answer)


class PaddingSensitive(Classifier):
    """Changes its mind about `rows` when texts are padded to full length."""

    def __init__(self, rows: set[int]) -> None:
        super().__init__(right_except().answer)
        self.rows = rows

    def logits(self, texts, batch_size=32, pad_to=None):  # type: ignore[no-untyped-def]
        logits = super().logits(texts)
        changed = [i for i, text in enumerate(texts) if pad_to == 128 and int(text.split()[1]) in self.rows]
        logits[changed] = logits[changed, ::-1]
        return logits


def run(model: Classifier, teacher: Classifier, labels: list[int] = LABELS, **settings: int) -> Findings:
    return FidelityProbe(**settings).run(model, context(split(TEXTS, labels), teacher=teacher))


def values(findings: Findings) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in findings.metrics}


def test_the_teacher_is_loyal_to_itself() -> None:
    found = values(run(right_except(3), right_except(3)))
    assert found["label_loyalty"] == found["probability_loyalty"] == 1
    assert found["flips"] == found["flips_to_wrong"] == found["flips_to_right"] == found["layout_flips"] == 0


def test_flips_are_counted_by_direction_and_named_by_row_number() -> None:
    findings = run(right_except(0, 1, 2), right_except(2, 5))
    found = values(findings)
    assert found["label_loyalty"] == 17 / 20
    assert (found["flips"], found["flips_to_wrong"], found["flips_to_right"]) == (3, 2, 1)
    assert (findings.details["to_wrong"], findings.details["to_right"]) == ([1, 2], [6])  # numbers from 1
    assert 0 < found["probability_loyalty"] < 1  # type: ignore[operator]


def test_rows_with_hidden_labels_flip_but_neither_to_wrong_nor_to_right() -> None:
    findings = run(right_except(0, 1), right_except(), labels=[-1, *LABELS[1:]])
    assert values(findings)["flips"] == 2
    assert findings.details["to_wrong"] == [2]


def test_labels_that_depend_on_padding_are_found() -> None:
    findings = run(PaddingSensitive({4, 7, 9}), right_except())
    assert values(findings)["layout_flips"] == 3
    assert findings.details["layouts"] == [
        {"name": "batch 1, no padding", "flips": 0, "n": 20},
        {"name": "batch 32, by length", "flips": 0, "n": 20},
        {"name": "batch 8, padded to 128", "flips": 3, "n": 20},
    ]


def test_layouts_are_tried_on_a_sample() -> None:
    findings = run(PaddingSensitive(set(range(20))), right_except(), layout_samples=6)
    assert findings.details["layouts"][2] == {"name": "batch 8, padded to 128", "flips": 6, "n": 6}


def test_label_sets_are_compared_as_sets() -> None:
    truth = np.array([[1, 0, 1]] * 4)
    teacher = Classifier(lambda text: [1.0, -1.0, 1.0])
    model = Classifier(lambda text: [1.0, -1.0, -1.0 if text == "text 2" else 2.0])
    rows = split(TEXTS[:4], truth)  # type: ignore[arg-type]
    findings = FidelityProbe().run(model, context(rows, teacher=teacher, task="multi-label-classification"))
    assert values(findings)["label_loyalty"] == 0.75
    assert findings.details["to_wrong"] == [3]


def test_regression_gives_the_mean_change_and_no_flips() -> None:
    rows = split(TEXTS[:4], [0.1, 0.2, 0.3, 0.4])
    model, teacher = (Classifier(lambda text, shift=shift: [len(text) + shift]) for shift in (0.5, 0.0))
    findings = FidelityProbe().run(model, context(rows, teacher=teacher, task="text-regression"))
    assert values(findings) == {"mean_abs_change": 0.5}
    assert findings.details == {}


def test_no_rows_cannot_be_compared() -> None:
    with pytest.raises(NotGiven, match="test split is empty"):
        FidelityProbe().run(right_except(), context(split([])))
