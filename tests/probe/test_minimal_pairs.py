"""Minimal pairs: what the paradigms hold, and accuracies of models that prefer a planted sentence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_models import Classifier, context, split
from planted_language import Planted, examined

from assay.core.artifact import Artifact
from assay.core.errors import InputError, NotGiven, SettingError
from assay.core.model.predict import open_predictor
from assay.core.stats import wilson_interval
from probe.language.paradigms import PARADIGMS, Pair, draw_pairs
from probe.probe import Findings
from probe.probes.minimal_pairs import MinimalPairsProbe

PAIRS = draw_pairs(200, seed=13)
ONE_SIDED = {"negative_polarity", "existential_there"}


def of(paradigm: str) -> list[Pair]:
    return [pair for pair in PAIRS if pair.paradigm == paradigm]


def test_twelve_paradigms_have_two_hundred_different_pairs_each_the_same_for_the_same_seed() -> None:
    assert Counter(pair.paradigm for pair in PAIRS) == dict.fromkeys(PARADIGMS, 200)
    assert len(PARADIGMS) == 12
    assert len({(pair.good, pair.bad) for pair in PAIRS}) == len(PAIRS)
    assert draw_pairs(200, seed=13) == PAIRS
    assert draw_pairs(200, seed=14) != PAIRS


@pytest.mark.parametrize("name", PARADIGMS)
def test_both_sentences_have_as_many_words_and_differ_in_those_that_the_paradigm_changes(name: str) -> None:
    for pair in of(name):
        good, bad = pair.good.split(), pair.bad.split()
        assert len(good) == len(bad)
        assert sum(one != other for one, other in zip(good, bad, strict=True)) == PARADIGMS[name].changed
        assert (pair.good[0].isupper(), pair.good[-1]) == (True, ".")


@pytest.mark.parametrize("name", PARADIGMS)
def test_a_preference_for_single_words_gains_nothing_where_both_sides_are_balanced(name: str) -> None:
    random, pairs = np.random.default_rng(3), [changed(pair) for pair in of(name)]
    vocabulary = sorted({word for pair in pairs for word in pair})
    weights = np.array([[pair.get(word, 0) for word in vocabulary] for pair in pairs])
    likes = random.normal(size=(len(vocabulary), 400))  # 400 models, each with its own preferences
    shares = ((np.sign(weights @ likes) + 1) / 2).mean(axis=0)
    assert shares.mean() == pytest.approx(0.5, abs=0.06)
    assert (shares.std() > 0.2) == (name in ONE_SIDED)  # where one word or the other is always preferred


def changed(pair: Pair) -> Counter[str]:
    """+1 for the words that only the good sentence has, -1 for those of the bad one."""
    words = Counter(pair.good.split())
    words.subtract(pair.bad.split())
    return words


def file_of(path: Path, pairs: list[tuple[str, str, str]]) -> Path:
    lines = [{"sentence_good": good, "sentence_bad": bad, "UID": name} for name, good, bad in pairs]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


THREE = [("verbs", "she runs", "she run"), ("verbs", "they run", "they runs"), ("nouns", "this dog", "this dogs")]
PIECES = ("she", "they", "run", "runs", "this", "dog", "dogs")
RIGHT = {"she": {"runs": 0.5, "run": 0.25}, "they": {"run": 0.5, "runs": 0.25}, "this": {"dog": 0.5, "dogs": 0.25}}


def knowing(*firsts: str, wrong: tuple[str, ...] = ()) -> Planted:
    """Prefers the right word after these, and the wrong one after others."""

    def answer(tokens: list[str], place: int) -> dict[str, float]:
        given = tokens[place]
        known = RIGHT.get(given, {})
        if given in wrong:
            return dict(zip(known, reversed(known.values()), strict=True))
        return known if given in firsts else {}

    return Planted(PIECES, answer, "text-generation")


def found(path: Path, model: Planted, teacher: Planted | None = None) -> Findings:
    return MinimalPairsProbe(pairs=str(path)).run(model, examined(model, teacher))


def values(findings: Findings) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in findings.metrics}


def test_a_model_that_prefers_good_sentences_has_accuracy_one_and_one_that_prefers_bad_ones_zero(
    tmp_path: Path,
) -> None:
    path = file_of(tmp_path / "pairs.jsonl", THREE)
    everything = ("she", "they", "this")
    assert values(found(path, knowing(*everything))) == {"pairs_accuracy": 1}
    assert values(found(path, knowing(wrong=everything))) == {"pairs_accuracy": 0}


def test_ties_count_half_and_paradigms_stand_alone(tmp_path: Path) -> None:
    findings = found(file_of(tmp_path / "pairs.jsonl", THREE), knowing("this", wrong=("she",)))
    (accuracy,) = findings.metrics
    assert accuracy.value == 0.5  # one right, one tie, one wrong
    assert (accuracy.low, accuracy.high) == pytest.approx(wilson_interval(1.5, 3))
    by_name = {each["paradigm"]: each for each in findings.details["paradigms"]}
    assert {name: (each["accuracy"], each["n"], each["ties"]) for name, each in by_name.items()} == {
        "verbs": (0.25, 2, 1),
        "nouns": (1.0, 1, 0),
    }


def test_a_variant_is_compared_with_its_teacher_pair_by_pair(tmp_path: Path) -> None:
    path = file_of(tmp_path / "pairs.jsonl", THREE)
    findings = found(path, knowing("she", wrong=("they", "this")), knowing("they", "this", wrong=("she",)))
    assert values(findings) == {
        "pairs_accuracy": pytest.approx(1 / 3),
        "pairs_change": pytest.approx(-1 / 3),
        "pairs_won": 1,
        "pairs_lost": 2,
    }
    assert {each["good"] for each in findings.details["lost"]} == {"they run", "this dog"}
    assert findings.details["lost"][0]["margin"] == pytest.approx(-np.log(2), abs=1e-5)
    assert findings.details["lost"][0]["teacher_margin"] == pytest.approx(np.log(2), abs=1e-5)


def test_pairs_of_the_same_tokens_and_pairs_that_are_cut_are_told(tmp_path: Path) -> None:
    path = file_of(tmp_path / "pairs.jsonl", [*THREE, ("long", "she " * 70 + "runs", "she " * 70 + "run"),
                                              ("unknown", "she swims", "she swim")])  # fmt: skip
    details = found(path, knowing("she", "they", "this")).details
    assert (details["same_tokens"], details["left_out"]) == (1, {"cut": 1})
    assert [each["accuracy"] for each in details["paradigms"]] == [1, 1, None, 0.5]


def test_where_no_pair_is_read_to_its_end_the_reason_is_told(tmp_path: Path) -> None:
    path = file_of(tmp_path / "pairs.jsonl", [("long", "she " * 70 + "runs", "she " * 70 + "run")])
    assert found(path, knowing("she")).skipped == "none of 1 pairs is read to its end (data.max_length)"


def test_a_folder_is_all_its_files_and_a_paradigm_without_a_name_is_called_as_its_file(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.jsonl").write_text('{"sentence_good": "she runs", "sentence_bad": "she run"}\n\n' * 3)
    probe = MinimalPairsProbe(pairs=str(tmp_path), samples=2)
    model = knowing("she")
    details = probe.run(model, examined(model)).details
    assert [(each["paradigm"], each["n"]) for each in details["paradigms"]] == [("a", 2), ("b", 2)]
    assert probe.inputs() == [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"pairs.jsonl:2: is not JSON"),
        ("[1]", r"pairs.jsonl:2: holds list, not an object"),
        ('{"sentence_good": "a"}', r"pairs.jsonl:2: no text in sentence_bad"),
        ('{"sentence_good": "a", "sentence_bad": "a"}', r"pairs.jsonl:2: both sentences are 'a'"),
    ],
)
def test_a_bad_line_is_refused_before_any_training(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(f'{{"sentence_good": "a", "sentence_bad": "b"}}\n{line}\n')
    with pytest.raises(InputError, match=message):
        MinimalPairsProbe(pairs=str(path)).check()


def test_a_file_that_is_not_there_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"minimal_pairs.pairs: .*no such file"):
        MinimalPairsProbe(pairs=str(tmp_path / "none.jsonl")).check()
    with pytest.raises(SettingError, match=r"holds no \*.jsonl"):
        MinimalPairsProbe(pairs=str(tmp_path)).check()
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match="no pair"):
        MinimalPairsProbe(pairs=str(tmp_path)).check()


def test_a_classifier_is_told_what_is_needed() -> None:
    with pytest.raises(NotGiven, match="minimal_pairs needs a language model: task fill-mask or text-generation"):
        MinimalPairsProbe().run(Classifier(lambda text: [0.0, 1.0]), context(split(["a"])))


def test_random_weights_know_no_grammar(tiny_artifact: Callable[..., Artifact]) -> None:
    model = open_predictor(tiny_artifact("gpt2", "text-generation", layers=1), 64)
    (accuracy,) = MinimalPairsProbe(samples=10).run(model, context(split(["a"]), teacher=model)).metrics
    assert accuracy.n == 120
    assert accuracy.value == pytest.approx(0.5, abs=0.18)  # four standard errors
