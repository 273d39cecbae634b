"""Mutual information of head and tail against hand-computed values, and on real weights against a plain reading."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_models import Classifier, context, split
from planted_language import Planted, examined
from sklearn.metrics import roc_auc_score
from transformers import AutoModelForMaskedLM, AutoTokenizer

from assay.core.artifact import Artifact
from assay.core.errors import InputError, NotGiven
from assay.core.model.predict import open_predictor
from probe.language.greedy_fill import Fill, fill_greedily
from probe.language.mutual_information import score_triples
from probe.language.read_texts import as_language_model
from probe.language.triples import Triple, put_in, read_triples
from probe.probe import Findings
from probe.probes.triples import TriplesProbe
from probe.separation import area, best_threshold

PIECES = ("dog", "cat", "fish", "bird", "is", "a", "of", "un", "##happy", "kind")
ISA = {"IsA": ["[X] is a [Y]"]}
DOG, CAT = Triple("IsA", "dog", "cat"), Triple("IsA", "cat", "fish")


def knowing(pairs: dict[tuple[str, str], float]) -> Planted:
    """Finds a word of a pair, whose probability is 0.1 otherwise, so many times as probable where it sees the other."""

    def answer(tokens: list[str], place: int) -> dict[str, float]:
        known = dict.fromkeys(("dog", "cat", "fish", "bird"), 0.1)
        for (head, tail), times in pairs.items():
            if place == 1 and tail in tokens[2:]:
                known[head] *= times
            if place > 1 and tokens[1] == head:
                known[tail] *= times
        return known

    return Planted(PIECES, answer, "fill-mask")


def file_of(path: Path, triples: list[Triple]) -> str:
    path.write_text("\n".join(json.dumps(vars(each)) for each in triples))
    return str(path)


def found(path: str, model: Planted, teacher: Planted | None = None, **settings: Any) -> Findings:
    return TriplesProbe(triples=path, templates=ISA, **settings).run(model, examined(model, teacher))


def values(findings: Findings) -> dict[str, float | None]:
    return {metric.name.removeprefix("triples_"): metric.value for metric in findings.metrics}


def test_words_that_tell_of_each_other_have_information_and_independent_ones_have_none() -> None:
    both = score_triples(knowing({("dog", "cat"): 4}), [DOG, CAT], ISA)
    assert [each.score() for each in both] == pytest.approx([log(4), 0], abs=1e-6)
    (dog, _) = both
    assert (dog.tail, dog.tail_alone) == pytest.approx((log(0.4), log(0.1)), abs=1e-6)
    assert dog.score(weight=2) == pytest.approx(2 * log(0.4) - log(0.1), abs=1e-6)


def test_information_is_the_mean_over_both_directions() -> None:
    def answer(tokens: list[str], place: int) -> dict[str, float]:
        sees = tokens[1] == "dog" if place == 4 else tokens[4] == "cat"
        return {4: {"cat": 0.8 if sees else 0.2}, 1: {"dog": 0.1}}[place]

    (dog,) = score_triples(Planted(PIECES, answer, "fill-mask"), [DOG], ISA)
    assert dog.score() == pytest.approx(log(4) / 2, abs=1e-6)


def test_the_surest_of_several_places_is_filled_first() -> None:
    """Left to right it would be 0.1 * 0.5."""

    def answer(tokens: list[str], place: int) -> dict[str, float]:
        if tokens.count("[MASK]") == 2:
            return {4: {"un": 0.1}, 5: {"##happy": 0.6}}[place]
        return {4: {"un": 0.9}, 5: {"##happy": 0.5}}[place]

    model = Planted(PIECES, answer, "fill-mask")
    ids = model.encoder.ids(["dog is a unhappy"])[0]
    assert fill_greedily(model, [Fill(ids, [4, 5]), Fill(ids, [])]) == pytest.approx([log(0.6 * 0.9), 0], abs=1e-6)
    assert model.asked == 2


def test_what_stays_hidden_is_never_put_in() -> None:
    seen = []

    def answer(tokens: list[str], place: int) -> dict[str, float]:
        seen.append(tokens[1])
        return {}

    model = Planted(PIECES, answer, "fill-mask")
    ids = model.encoder.ids(["dog is a unhappy"])[0]
    fill_greedily(model, [Fill(ids, [4, 5], hidden=[1])])
    assert set(seen) == {"[MASK]"}


@pytest.mark.parametrize(("sure", "sentence"), [(0.9, "dog is a kind of cat"), (0.5, "dog is a cat")])
def test_of_several_templates_the_likeliest_sentence_is_taken_for_its_length(sure: float, sentence: str) -> None:
    """The longer one is never more probable as a whole: ln(0.0025 * 0.9 ** 2) / 6 ** 0.2 is above
    ln(0.0025) / 4 ** 0.2."""

    def answer(tokens: list[str], place: int) -> dict[str, float]:
        if tokens[place + 1] == "of":
            return {"kind": sure}
        return {"of": sure} if tokens[place - 1] == "kind" else {"is": 0.5, "a": 0.5, "dog": 0.1, "cat": 0.1}

    templates = {"IsA": ["[X] is a [Y]", "[X] is a kind of [Y]"]}
    (dog,) = score_triples(Planted(PIECES, answer, "fill-mask"), [DOG], templates)
    assert (dog.sentence, dog.template) == (sentence, sentence.replace("dog", "[X]").replace("cat", "[Y]"))


def test_head_and_tail_stand_where_the_template_has_them_whatever_they_are_called() -> None:
    sentence = put_in("the [Y] of [X].", Triple("r", "[Y]", "a [X] b"))
    assert sentence.text == "the a [X] b of [Y]."
    assert (sentence.text[slice(*sentence.head)], sentence.text[slice(*sentence.tail)]) == ("[Y]", "a [X] b")


TRUE_FIRST = [Triple("IsA", head, tail, label) for head, tail, label in (
    ("dog", "cat", True), ("dog", "fish", True), ("cat", "fish", True), ("cat", "bird", True),
    ("fish", "dog", False), ("fish", "cat", False), ("bird", "dog", False), ("bird", "cat", False))]  # fmt: skip


def test_true_triples_are_told_from_false_ones_and_the_ranking_is_shown(tmp_path: Path) -> None:
    pairs = {(each.head, each.tail): 4.0 for each in TRUE_FIRST[:4]}
    knows = knowing(pairs)
    findings = found(file_of(tmp_path / "t.jsonl", TRUE_FIRST), knows)
    assert {name: values(findings)[name] for name in ("auc", "majority")} == {"auc": 1, "majority": 0.5}
    assert [each["label"] for each in findings.details["ranking"]] == [True] * 4 + [False] * 4
    nothing = found(file_of(tmp_path / "t.jsonl", TRUE_FIRST), knowing({}))
    assert values(nothing)["auc"] == 0.5
    assert values(nothing)["pmi"] == pytest.approx(0, abs=1e-6)


def test_the_threshold_comes_from_the_validation_file(tmp_path: Path) -> None:
    """There all are true that score above 0, here one that scores as much is not."""
    knows = knowing({("dog", "cat"): 4, ("cat", "fish"): 4})
    rows = [Triple("IsA", "dog", "cat", True), Triple("IsA", "cat", "fish", False), Triple("IsA", "fish", "dog", False)]
    validation = [Triple("IsA", "dog", "cat", True), Triple("IsA", "bird", "dog", False)]
    paths = [file_of(tmp_path / name, each) for name, each in (("t.jsonl", rows), ("v.jsonl", validation))]
    findings = found(paths[0], knows, validation=paths[1])
    assert values(findings)["accuracy"] == pytest.approx(2 / 3)
    assert findings.details["thresholds"] == [pytest.approx(log(4) / 2, abs=1e-3)]


def test_a_variant_is_compared_with_its_teacher_triple_by_triple(tmp_path: Path) -> None:
    validation = file_of(tmp_path / "v.jsonl", [TRUE_FIRST[0], TRUE_FIRST[-1]])
    teacher = knowing({("dog", "cat"): 4, ("cat", "fish"): 4, ("dog", "fish"): 3})
    variant = knowing({("dog", "cat"): 4, ("dog", "fish"): 3})
    findings = found(file_of(tmp_path / "t.jsonl", TRUE_FIRST), variant, teacher, validation=validation)
    assert {name: values(findings)[name] for name in ("change", "won", "lost")} == {
        "change": -1 / 8, "won": 0, "lost": 1,
    }  # fmt: skip
    assert 0 < values(findings)["teacher_spearman"] < 1


def test_without_labels_only_the_ranking_and_its_likeness_to_the_teachers_are_told(tmp_path: Path) -> None:
    path = file_of(tmp_path / "t.jsonl", [DOG, CAT, Triple("IsA", "bird", "fish")])
    knows = knowing({("dog", "cat"): 4, ("cat", "fish"): 2})
    findings = found(path, knows, knowing({("dog", "cat"): 3, ("cat", "fish"): 2}))
    assert values(findings).keys() == {"pmi", "teacher_spearman"}
    assert values(findings)["teacher_spearman"] == pytest.approx(1)
    assert [each["head"] for each in findings.details["ranking"]] == ["dog", "cat", "bird"]


def test_triples_that_cannot_be_asked_are_left_out_with_the_reason(tmp_path: Path) -> None:
    rows = [DOG, Triple("IsA", "xylophone", "cat"), Triple("IsA", "dog", "fish " * 80)]
    findings = found(file_of(tmp_path / "t.jsonl", rows), knowing({}))
    assert findings.details["left_out"] == {
        "the tokenizer does not know a word of it": 1, "the model cannot read the whole sentence": 1,
    }  # fmt: skip
    assert len(findings.details["ranking"]) == 1
    nothing = found(file_of(tmp_path / "t.jsonl", rows[1:]), knowing({}))
    assert "none of 2 triples can be asked" in (nothing.skipped or "")


def test_the_figures_of_real_weights_are_those_of_reading_the_masked_sentences(
    tiny_artifact: Callable[..., Artifact],
) -> None:
    artifact = tiny_artifact("bert", "fill-mask", layers=2)
    model = as_language_model(open_predictor(artifact, 32), "triples")
    (dog,) = score_triples(model, [Triple("IsA", "dog", "film")], {"IsA": ["the [X] is a [Y] ."]})
    module = AutoModelForMaskedLM.from_pretrained(artifact.path).eval()
    tokenizer = AutoTokenizer.from_pretrained(artifact.path)

    def read(text: str, place: int, word: str) -> float:
        with torch.no_grad():
            logits = module(**tokenizer(text, return_tensors="pt")).logits[0, place]
        return float(logits.log_softmax(-1)[tokenizer.convert_tokens_to_ids(word)])

    both = "the [MASK] is a [MASK] ."
    expected = (
        read("the dog is a [MASK] .", 5, "film"), read(both, 5, "film"),
        read("the [MASK] is a film .", 2, "dog"), read(both, 2, "dog"),
    )  # fmt: skip
    assert (dog.tail, dog.tail_alone, dog.head, dog.head_alone) == pytest.approx(expected, abs=1e-4)


def test_the_area_is_that_of_scikit_learn_and_the_threshold_that_of_trying_all() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        scores, labels = random.integers(6, size=15).astype(float), random.integers(2, size=15)
        labels[:2] = 0, 1
        assert area(scores, labels) == pytest.approx(roc_auc_score(labels, scores))
        tried = [((scores >= cut) == labels).sum() for cut in np.arange(-0.5, 7)]
        assert ((scores >= best_threshold(scores, labels)) == labels).sum() == max(tried)
    assert np.isnan(area(np.arange(3.0), np.ones(3)))
    assert best_threshold(np.arange(3.0), np.ones(3)) == -np.inf


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", "IsA\tdog", "t.tsv:1: has 2 columns"),
        ("t.tsv", "IsA\tdog\tcat\t1\nIsA\tdog\tcat\tmaybe", "t.tsv:2: label 'maybe' is neither true"),
        ("t.tsv", "IsA\tdog\tcat\t1\nIsA\tdog\tcat", "t.tsv:2: has no label, the lines before have one"),
        ("t.jsonl", '{"head": "dog", "relation": "IsA"}', "t.jsonl:1: no text in tail"),
        ("t.jsonl", "", "no triple; a line holds relation, head, tail"),
        ("t.tsv", "HasA\tdog\tcat", "triples.templates: no template for relation 'HasA'.*IsA"),
    ],
)
def test_a_bad_file_is_refused_before_any_training(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        TriplesProbe(triples=str(tmp_path / name), templates=ISA).check()


def test_a_template_without_both_places_is_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path / "t.jsonl", [DOG])
    with pytest.raises(InputError, match=r"IsA: '\[X\] is' must have \[X\] \(head\) once and \[Y\] \(tail\) once"):
        TriplesProbe(triples=path, templates={"IsA": ["[X] is"]}).check()


def test_columns_are_those_of_the_published_files(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("IsA\tdog\tcat\t1\nIsA\tcat\tfish\t0\n")
    assert [(each.head, each.label) for each in read_triples(tmp_path / "t.txt")] == [("dog", True), ("cat", False)]


def test_what_fills_no_masks_is_told_the_reason(tmp_path: Path) -> None:
    path = file_of(tmp_path / "t.jsonl", [DOG])
    causal = Planted(PIECES, lambda tokens, place: {}, "text-generation")
    with pytest.raises(NotGiven, match="task fill-mask"):
        found(path, causal)
    with pytest.raises(NotGiven, match="triples needs a language model"):
        TriplesProbe(triples=path, templates=ISA).run(Classifier(lambda text: [0.0, 1.0]), context(split(["a"])))
