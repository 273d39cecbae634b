import difflib

import numpy as np
import pytest
from fake_models import Classifier, context, split

from assay.core.data.prepare import Split
from assay.core.errors import NotGiven
from probe.probe import Findings
from probe.probes.typos import TypoProbe
from probe.word_spans import word_spans


def reads(word: str) -> Classifier:
    """Class 1 with certainty while `word` is there, class 0 without it."""
    return Classifier(lambda text: [0.0, 4.0] if word in text else [4.0, 0.0])


def run(model: Classifier, rows: Split, **settings: object) -> Findings:
    return TypoProbe(**settings).run(model, context(rows))  # type: ignore[arg-type]


def value(findings: Findings, name: str) -> float | None:
    (metric,) = [metric for metric in findings.metrics if metric.name == name]
    return metric.value


TEXT = "this film, though long, is a wonderful  piece of work…"


def test_the_one_word_that_decides_is_broken_and_nothing_else() -> None:
    findings = run(reads("wonderful"), split([TEXT], [1]))
    (example,) = findings.details["examples"]
    start = TEXT.index("wonderful")
    assert example["perturbed"] != TEXT
    assert example["perturbed"].startswith(TEXT[: start + 1])
    assert example["perturbed"].endswith(TEXT[start + len("wonderful") - 1 :])
    assert (example["label"], example["before"], example["after"]) == ("pos", "pos", "neg")
    assert findings.details["mean_edits"] == 1
    # this, film, though, long, wonderful, piece and work are ranked, then four misspellings are tried
    assert findings.details["mean_queries"] == example["queries"] == 7 + 4


def test_a_classifier_that_reads_no_word_cannot_be_broken() -> None:
    findings = run(Classifier(lambda text: [0.0, 1.0]), split([TEXT], [1]))
    assert value(findings, "attack_success_rate") == 0
    assert findings.details["reasons"] == {"failed (no edit left)": 1}
    assert findings.details["examples"] == []


def test_two_words_are_misspelt_where_one_is_not_enough_and_no_more_than_allowed() -> None:
    def answer(text: str) -> list[float]:
        return [2.5, 1.0 + sum(word in text for word in ("wonderful", "piece", "work"))]

    two = run(Classifier(answer), split([TEXT], [1]), max_edits=2)
    assert (two.details["mean_edits"], value(two, "attack_success_rate")) == (2, 1)
    one = run(Classifier(answer), split([TEXT], [1]), max_edits=1)
    assert (one.details["mean_edits"], value(one, "attack_success_rate")) == (None, 0)


def test_rows_wrong_from_the_start_are_no_wins_and_cost_nothing() -> None:
    flippable, firm, wrong = "wonderful film one", "100 % film one", "dreadful film one"
    model = Classifier(lambda text: [0.0, 4.0] if "wonderful" in text or "100" in text else [4.0, 0.0])
    rows = split([flippable] * 3 + [firm] * 3 + [wrong] * 4, [1] * 10)
    findings = run(model, rows)
    assert value(findings, "clean_accuracy") == 0.6
    assert value(findings, "after_attack_accuracy") == 0.3
    assert value(findings, "attack_success_rate") == 0.5
    assert (findings.details["attacked"], findings.details["skipped"]) == (6, 4)
    assert findings.details["reasons"]["wrong from the start"] == 4
    assert [metric.n for metric in findings.metrics] == [10, 10, 6, 6]
    success = findings.metrics[2]
    assert (success.low, success.high) == (pytest.approx(0.188, abs=1e-3), pytest.approx(0.812, abs=1e-3))
    assert model.asked == 10 + findings.details["mean_queries"] * 6


@pytest.mark.parametrize("budget", [0, 1, 3, 30])
def test_a_budget_that_ends_while_ranking_fails_that_row_and_no_other(budget: int) -> None:
    long = " ".join(["wonderful", *["film"] * 29])
    findings = run(reads("wonderful"), split([long, "wonderful a"], [1, 1]), query_budget=budget)
    assert findings.details["reasons"]["failed (budget)"] == (1 if budget > 1 else 2)
    assert [example["row"] for example in findings.details["examples"]] == ([2] if budget > 1 else [])


@pytest.mark.parametrize("budget", [0, 1, 2, 3, 5, 8, 9, 12, 100])
def test_no_row_uses_more_than_its_budget(budget: int) -> None:
    model = reads("work…")
    findings = run(model, split([TEXT], [1]), query_budget=budget)
    assert model.asked - 1 == findings.details["mean_queries"] <= budget


def test_a_budget_with_room_for_one_try_after_ranking_uses_it() -> None:
    findings = run(reads("wonderful"), split([TEXT], [1]), query_budget=8)
    assert (value(findings, "attack_success_rate"), value(findings, "mean_queries")) == (1, 8)


@pytest.mark.parametrize("text", [">>>>> >>>>", "这部电影很好看", "🎬🎬 ❤️", "", "  \t\n", "\u200b", "a b c", "I 2 x9"])
def test_texts_without_a_word_to_misspell_are_skipped_with_the_reason(text: str) -> None:
    findings = run(Classifier(lambda text: [0.0, 1.0]), split([text, TEXT], [1, 1]))
    assert findings.details["reasons"] == {"no word to edit": 1, "failed (no edit left)": 1}
    assert (findings.details["attacked"], findings.details["skipped"]) == (1, 1)


@pytest.mark.parametrize(
    "text", ["thanks", "هذا الفيلم جميل جدا", "\r\n Ça  vaut… LE détour?! ", "don’t miss well-made films"]
)
def test_unedited_parts_stay_as_they_are(text: str) -> None:
    findings = run(Classifier(lambda asked: [0.0, 1.0] if asked == text else [1.0, 0.0]), split([text], [1]))
    (example,) = findings.details["examples"]
    blocks = difflib.SequenceMatcher(a=text, b=example["perturbed"], autojunk=False).get_opcodes()
    changed = [(start, end) for kind, start, end, *_ in blocks if kind != "equal"]
    (word,) = {span for span in word_spans(text) for start, end in changed if span[0] < start and end < span[1]}
    assert example["perturbed"][: word[0]] == text[: word[0]]
    assert example["perturbed"].endswith(text[word[1] :])


@pytest.mark.parametrize("text", ["Can't see the dog.", "CAN’T  see the “Dogs”, dogs!"])
def test_stopwords_are_left_alone_in_any_case_and_with_any_apostrophe(text: str) -> None:
    findings = run(Classifier(lambda text: [0.0, 1.0]), split([text], [1]), stopwords=["dogs", "can't"])
    assert findings.details["reasons"] == {"no word to edit": 1}
    control = run(Classifier(lambda text: [0.0, 1.0]), split([text], [1]))
    assert control.details["attacked"] == 1


def test_same_seed_same_typos_whatever_rows_are_beside() -> None:
    alone, beside = (run(reads("wonderful"), rows) for rows in (split([TEXT], [1]), split([TEXT, "bad thing"], [1, 0])))
    assert alone == run(reads("wonderful"), split([TEXT], [1]))
    assert alone.details["examples"][0] == beside.details["examples"][0]


def test_the_sample_is_drawn_from_all_classes_and_leaves_hidden_labels_out() -> None:
    rows = split([TEXT] * 90, [0] * 50 + [1] * 30 + [-1] * 10)
    findings = run(reads("wonderful"), rows, samples=16)
    assert value(findings, "clean_accuracy") == 6 / 16


def test_all_rounds_are_asked_in_few_calls() -> None:
    calls = []

    class Counting(Classifier):
        def logits(self, texts, batch_size=32, pad_to=None):  # type: ignore[no-untyped-def]
            calls.append(len(texts))
            return super().logits(texts)

    model = Counting(lambda text: [0.0, 4.0] if "wonderful" in text else [4.0, 0.0])
    run(model, split([TEXT] * 40, [1] * 40))
    assert calls == [40, 40 * 7, 40 * 4]


@pytest.mark.parametrize("task", ["text-regression", "multi-label-classification"])
def test_jobs_without_a_single_class_are_refused_with_the_reason(task: str) -> None:
    with pytest.raises(NotGiven, match=f"a {task} job has no single class"):
        TypoProbe().run(reads("wonderful"), context(split([TEXT]), task=task))


def test_hidden_labels_alone_leave_nothing_to_attack() -> None:
    with pytest.raises(NotGiven, match="all 2 test labels are hidden"):
        run(reads("wonderful"), split([TEXT, TEXT], [-1, -1]))


def test_nothing_right_means_no_success_rate_rather_than_zero() -> None:
    findings = run(reads("wonderful"), split([TEXT], np.array([0])))
    assert value(findings, "attack_success_rate") is value(findings, "mean_queries") is None
    assert value(findings, "clean_accuracy") == 0
