"""SentEval's tasks made from parsed sentences: what they ask is in the sentences, and nothing simpler tells the classes
apart."""

import re
from collections import Counter
from itertools import product

import numpy as np
import pytest
from fake_models import context, split

from probe.balance import Item, balanced, side_of
from probe.probe import ProbeContext
from probe.probes.linear import LinearProbe
from probe.silver import parser as parsing
from probe.silver import tasks as made
from probe.silver.clauses import clause_items, two_clauses
from probe.silver.grammar import object_number, subject_number, tense, top_constituents, tree_depth
from probe.silver.odd_word import Bigrams, commonest_tags, odd_items
from probe.silver.parser import ParsedSentence
from probe.silver.tasks import ParsedTask, ParsedTasks
from probe.treebank import Sentence
from probe.word_content import word_content_task


def parsed(lines: str) -> ParsedSentence:
    """Of `word/TAG/relation/head` with heads from 1, 0 the root; words are joined by spaces, marks by none."""
    cells = [line.split("/") for line in lines.split()]
    words, tags, relations, heads = zip(*cells, strict=True)
    text, spans = "", []
    for word, relation in zip(words, relations, strict=True):
        text += " " * bool(text and relation != "punct")
        spans.append((len(text), len(text) + len(word)))
        text += word
    upos = tuple({"N": "NOUN", "V": "VERB", ".": "PUNCT", ",": "PUNCT"}.get(tag[0], "X") for tag in tags)
    tree = Sentence(1, words, upos, tags, tuple(int(head) - 1 for head in heads), relations)
    return ParsedSentence(text, tuple(spans), tree)


CHASE = parsed("Old/JJ/amod/2 dogs/NNS/nsubj/3 chase/VBP/root/0 a/DT/det/5 cat/NN/dobj/3 ././punct/3")
SEEN = parsed("it/PRP/nsubjpass/3 was/VBD/auxpass/3 seen/VBN/root/0")
CAN = parsed("dogs/NNS/nsubj/3 can/MD/aux/3 run/VB/root/0")
BOTH = parsed("dogs/NNS/nsubj/4 and/CC/cc/1 cats/NNS/conj/1 ran/VBD/root/0 home/NN/advmod/4")
TWO = parsed(
    "The/DT/det/2 dog/NN/nsubj/3 ran/VBD/root/0 ,/,/punct/3 and/CC/cc/3 old/JJ/amod/7 cats/NNS/nsubj/8 "
    "slept/VBD/conj/3 well/RB/advmod/8 !/./punct/3"
)


def test_tense_is_that_of_the_finite_verb() -> None:
    assert (tense(CHASE), tense(SEEN), tense(CAN)) == (("present", "chase"), ("past", "was"), None)
    assert tense(parsed("organized/VBD/root/0 crime/NN/dobj/1")) is None


def test_number_is_that_of_the_noun_itself() -> None:
    assert (subject_number(CHASE), object_number(CHASE)) == (("plural", "dogs"), ("singular", "cat"))
    assert (subject_number(SEEN), object_number(SEEN)) == (None, None)  # a pronoun; none
    assert subject_number(BOTH) is None  # two joined nouns


def test_depth_and_order_leave_marks_out() -> None:
    assert (tree_depth(CHASE), top_constituents(CHASE)) == ("2", "nsubj V dobj")
    assert (tree_depth(TWO), top_constituents(TWO)) == ("3", "nsubj V cc conj")


def test_clauses_change_places_and_the_first_letter_is_the_large_one() -> None:
    clauses = two_clauses(TWO)
    assert clauses is not None
    assert clauses.inverted == "Old cats slept well, and the dog ran!"
    assert clauses.words == (3, 4)
    assert two_clauses(CHASE) is two_clauses(BOTH) is None
    tv = two_clauses(parsed("TV/NN/nsubj/2 ran/VBD/root/0 and/CC/cc/2 cats/NNS/nsubj/5 slept/VBD/conj/2"))
    assert tv is not None
    assert tv.inverted == "Cats slept and TV ran"


def test_half_of_the_clauses_are_inverted_and_their_length_does_not_tell() -> None:
    longer = parsed("we/PRP/nsubj/3 really/RB/advmod/3 ran/VBD/root/0 and/CC/cc/3 they/PRP/nsubj/6 slept/VBD/conj/3")
    shorter = parsed("they/PRP/nsubj/2 slept/VBD/root/0 and/CC/cc/2 we/PRP/nsubj/6 really/RB/advmod/6 ran/VBD/conj/2")
    numbered = [
        ParsedSentence(each.text.replace("ran", f"ran{at}"), each.spans, each.tree)
        for each, at in product((longer, shorter), range(100))
    ]
    rows = balanced(clause_items(numbered[:140], seed=1), ("intact", "inverted"), 120, seed=1)
    first_is_long = np.array([text.startswith("we really") for text in rows.texts])
    assert len(rows.labels) >= 60
    assert first_is_long[rows.labels == 0].mean() == first_is_long[rows.labels == 1].mean()


def test_an_odd_word_has_the_tag_and_the_neighbours_of_the_one_it_replaces() -> None:
    frame = "the/DT/det/2 {}/NN/nsubj/3 ran/VBD/root/0"
    sentences = [parsed(frame.format(word)) for word in ("cat", "dog", "cow")]
    sentences += [parsed("the/DT/det/2 red/JJ/nsubj/3 ran/VBD/root/0")]
    bigrams, tags = Bigrams.of([each.text for each in sentences]), commonest_tags(sentences)
    items = [list(odd_items(sentences, bigrams, tags, lambda word: word != "cow", seed)) for seed in range(40)]
    assert {len(each) for each in items} == {2}  # "red" is no noun, and "cow" may not be there at all
    changed = Counter(
        (at, item.text.split()[1]) for each in items for at, item in enumerate(each) if item.label == "odd"
    )
    assert set(changed) == {(0, "dog"), (1, "cat")}
    assert sum(changed.values()) == pytest.approx(40, abs=15)
    assert all(item.text == sentences[at].text for each in items for at, item in enumerate(each) if item.label != "odd")


def test_rarer_bigrams_are_not_put_in_the_place_of_frequent_ones() -> None:
    texts = ["the cat ran"] * 8 + ["the dog ran"] * 9 + ["the cow ran"]
    assert Bigrams.of(texts).fill("the", "cat", "ran") == ["dog"]
    assert Bigrams.of(["the. cat"]).count("the", "cat") == 0


def test_as_many_of_each_class_in_every_stratum_and_no_text_twice() -> None:
    items = [Item(f"{label} {size} {at}", label, size) for label, size in product("ab", (5, 6)) for at in range(9)]
    items += [Item(f"a 7 {at}", "a", 7) for at in range(50)] + items[:9]
    rows = balanced(items, ("a", "b"), 30, seed=1)
    assert len(set(rows.texts)) == len(rows.texts) == 30
    counts = Counter((text.split()[1], int(label)) for text, label in zip(rows.texts, rows.labels, strict=True))
    assert counts["5", 0] == counts["5", 1]
    assert counts["6", 0] == counts["6", 1]
    assert sum(counts[size, label] for size in "56" for label in (0, 1)) == 30
    assert balanced([], ("a", "b"), 30, seed=1).texts == []


NOUNS = [f"noun{at}" for at in range(60)]


def of_nouns(count: int, seed: int) -> list[ParsedSentence]:
    """Sentences of 5 to 7 words with a singular or plural subject of many, and trees of many kinds."""
    rng, found = np.random.default_rng(seed), []
    for at in range(count):
        noun, tag = NOUNS[rng.integers(60)], ("NN", "NNS")[rng.integers(2)]
        words = [f"{noun}/{tag}/nsubj/2", f"ran{at}{seed}/VBD/root/0"]
        for place in range(3, 6 + rng.integers(3)):
            words.append(f"word/RB/{rng.choice(['advmod', 'prep', 'acomp'])}/{rng.integers(2, place)}")
        found.append(parsed(" ".join(words)))
    return found


class Known(list[ParsedSentence]):
    def first(self, count: int) -> list[ParsedSentence]:
        return self[:count]


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch) -> ProbeContext:
    """The parser stands aside: sentences of both splits are known."""
    rows = {"train": Known(of_nouns(600, 1)), "test": Known(of_nouns(300, 2))}
    monkeypatch.setattr(made, "pipeline", lambda: None)
    monkeypatch.setattr(made, "parsed_rows", lambda ctx, split, meta: rows[split])
    return context(split(["a row"]))


@pytest.mark.parametrize("name", ["subject_number", "tree_depth", "top_constituents"])
def test_tasks_are_balanced_and_no_larger_than_asked(ctx: ProbeContext, name: ParsedTask) -> None:
    task = ParsedTasks(ctx, 60, 30).make(name)
    for rows, most in ((task.train, 60), (task.test, 30)):
        counts = np.bincount(rows.labels)
        assert most / 2 < len(rows.labels) <= most
        assert len(set(counts.tolist())) == 1
    assert task.obstacle() is None


def test_no_noun_is_in_training_and_test_rows(ctx: ProbeContext) -> None:
    task = ParsedTasks(ctx, 200, 100).make("subject_number")
    nouns, test_nouns = ({text.split()[0] for text in rows.texts} for rows in (task.train, task.test))
    assert min(len(nouns), len(test_nouns)) > 5
    assert not nouns & test_nouns
    assert [side_of("noun1", share, 13) for share in (0, 1)] == ["train", "test"]


def test_length_does_not_tell_depth(ctx: ProbeContext) -> None:
    rows = ParsedTasks(ctx, 300, 100).make("tree_depth").train
    lengths = np.array([len(text.split()) for text in rows.texts])
    shares = [Counter(lengths[rows.labels == label].tolist()) for label in range(rows.labels.max() + 1)]
    assert all(share == shares[0] for share in shares)


def test_without_enough_rows_the_task_says_so(ctx: ProbeContext) -> None:
    task = ParsedTasks(ctx, 60, 30).make("coordination_inversion")
    assert task.obstacle() == "not trainable: 0 train and 0 test rows fit, needs 10 and 5"


def test_word_content_has_one_of_its_words_and_as_many_rows_with_each() -> None:
    words = [f"w{at}" for at in range(30)]
    rng = np.random.default_rng(1)
    texts = [
        f"the row {at} has {' and '.join(rng.choice(words, rng.integers(1, 3), replace=False))}" for at in range(900)
    ]
    task = word_content_task(texts, texts[:600], 200, 60, seed=1, max_words=64)
    assert (len(task.train.labels), len(task.test.labels)) == (200, 60)
    assert set(np.bincount(task.train.labels)) == {10}
    asked = [set(text.split()) & set(words) for text in task.train.texts]
    chosen = {next(iter(each)) for each in asked if len(each) == 1}
    assert len(chosen) >= 20
    of = {
        label: set.intersection(*(own for own, got in zip(asked, task.train.labels, strict=True) if got == label))
        for label in range(20)
    }
    assert all(len(each) == 1 for each in of.values())
    assert len(set.union(*of.values())) == 20


def test_words_that_stand_together_are_not_asked_for_however_many_rows_are_wanted() -> None:
    together = " ".join(f"often{at}" for at in range(20))
    texts = [f"{together} {at}" for at in range(500)] + [f"rare{at % 20} {at}" for at in range(400)]
    task = word_content_task(texts, texts, 400, 400, seed=1, max_words=64)
    assert len(task.train.labels) == 400
    assert all(text.startswith("rare") for text in task.train.texts)


def test_a_word_of_one_split_alone_loses_no_rows(ctx: ProbeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    own = [
        parsed(f"noun{at}/{('NN', 'NNS')[at % 2]}/nsubj/2 ran/VBD/root/0 a/RB/advmod/2 b/RB/advmod/2 c/RB/advmod/2")
        for at in range(40)
    ]
    rows = {"train": Known(own[:20]), "test": Known(own[20:])}
    monkeypatch.setattr(made, "parsed_rows", lambda ctx, split, meta: rows[split])
    task = ParsedTasks(ctx, 60, 30).make("subject_number")
    assert (len(task.train.labels), len(task.test.labels)) == (20, 20)


def test_rows_without_a_word_have_no_task() -> None:
    task = word_content_task(["", "🎬"], ["  "], 200, 60, seed=1, max_words=64)
    assert task.obstacle() == "not trainable: 0 train and 0 test rows fit, needs 10 and 5"


def test_a_training_sentence_is_no_test_row_in_another_order_either(
    ctx: ProbeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [
        parsed(f"a/DT/det/2 dog{at}/NN/nsubj/3 ran/VBD/root/0 and/CC/cc/3 a/DT/det/6 cat/NN/nsubj/7 slept/VBD/conj/3")
        for at in range(40)
    ]
    rows = {"train": Known(every[:30]), "test": Known(every[10:])}
    monkeypatch.setattr(made, "parsed_rows", lambda ctx, split, meta: rows[split])
    tasks = ParsedTasks(ctx, 60, 60)
    train, test = (list(clause_items(rows[name], 13)) for name in ("train", "test"))
    assert len({item.origin for item in train}) == 30
    assert {item.origin for item in test} & {item.origin for item in train}
    task = tasks.make("coordination_inversion")
    names = [{re.findall(r"dog\d+", text)[0] for text in part.texts} for part in (task.train, task.test)]
    assert min(map(len, names)) >= 6
    assert not names[0] & names[1]


def test_a_rare_class_does_not_cost_the_others_their_rows(ctx: ProbeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(relations: str, at: int) -> ParsedSentence:
        words = [f"w{at}/RB/{relation}/1" for relation in relations.split()]
        return parsed(" ".join([f"run{at}/VB/root/0", *words]))

    orders = [("a b c d", 60), ("b a c d", 60), ("c a b d", 60), ("d a b c", 2)]
    sentences = [of(order, 100 * number + at) for number, (order, count) in enumerate(orders) for at in range(count)]
    rows = {"train": Known(sentences), "test": Known([])}
    monkeypatch.setattr(made, "parsed_rows", lambda ctx, split, meta: rows[split])
    task = ParsedTasks(ctx, 120, 0).make("top_constituents")
    assert np.bincount(task.train.labels).tolist() == [40, 40, 40]  # the rare order, as "other", is left out
    depths = ParsedTasks(ctx, 120, 0)._commonest([Item(str(at), "1" if at else "2") for at in range(90)], [], 3)
    assert depths == ["1", "2"]
    part = [Item(str(at), "abc"[at % 3]) for at in range(90)]
    both = ParsedTasks(ctx, 60, 30)._commonest(
        [*part, Item("more", "a")], [item for item in part if item.label != "a"], 3
    )
    assert sorted(both) == ["b", "c"]  # the commonest has no test rows


@pytest.mark.skipif(not parsing.is_installed(), reason="spaCy and its English pipeline are not installed")
def test_the_parser_and_the_probe_meet() -> None:
    """On sentences whose subject's number is in their letters, which these states show."""
    from fake_models import Reader

    texts = [
        f"The {noun} {verb} very {word}."
        for noun, (verb, word) in product(
            [
                f"{base}{end}"
                for base in ("dog", "cat", "cow", "horse", "girl", "boy", "king", "queen", "bird", "duck")
                for end in ("", "s")
            ],
            [("ran", "fast"), ("slept", "well"), ("ate", "much")],
        )
    ]
    rows = split(texts)
    reader = Reader(lambda text: [[float(text.split()[1].endswith("s")), 1.0]])
    found = LinearProbe(tasks=["subject_number"], poolings=["mean"], samples=40, test_samples=20).run(
        reader, context(rows)
    )
    (task,) = found.details["tasks"]
    assert task["skipped"] is None
    assert task["majority"] == 0.5
    assert task["layers"][0]["accuracy"] == 1
