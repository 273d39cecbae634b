"""Twelve paradigms of English minimal pairs: two sentences that differ in one place, of which one is ungrammatical.

The phenomena are those of BLiMP (Warstadt et al. 2020, https://aclanthology.org/2020.tacl-1.25); words and sentences
are others. Both sentences of a pair have the same number of words. Most paradigms have two sides, equally often, on
which the wrong word of one is the right word of the other, so that a model that prefers a word wherever it stands is
right as often as not. In the paradigms of negative polarity and of `there` nothing balances the preference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from probe.language import lexicon as words

TRIES = 20  # draws a pair, at the most: a paradigm with fewer pairs gives those it has


@dataclass(frozen=True)
class Pair:
    """A grammatical sentence and one that is not; `field` is the phenomenon that the paradigm belongs to."""

    paradigm: str
    field: str
    good: str
    bad: str


@dataclass(frozen=True)
class Paradigm:
    """`make(random, side)` draws (good, bad); they differ in `changed` words."""

    field: str
    make: Callable[[Random, bool], tuple[str, str]]
    changed: int = 1


def draw_pairs(count: int, seed: int) -> list[Pair]:
    """`count` different pairs of each paradigm, the same for the same seed."""
    return [pair for name in PARADIGMS for pair in _of_paradigm(name, count, seed)]


def _of_paradigm(name: str, count: int, seed: int) -> list[Pair]:
    paradigm, random = PARADIGMS[name], Random(f"{seed} {name}")
    found: dict[tuple[str, str], None] = {}
    for side, wanted in ((False, count - count // 2), (True, count)):
        for _ in range(TRIES * count):
            if len(found) == wanted:
                break
            found[paradigm.make(random, side)] = None
    return [Pair(name, paradigm.field, good, bad) for good, bad in found]


def _both(sentence: str, good: str, bad: str) -> tuple[str, str]:
    """The sentence with each of the two words where it has a `*`."""
    return sentence.replace("*", good), sentence.replace("*", bad)


def _in_order(forms: tuple[str, str], plural: bool) -> tuple[str, str]:
    """(the form that fits, the other one)."""
    return (forms[1], forms[0]) if plural else forms


def agreement_plain(random: Random, plural: bool) -> tuple[str, str]:
    """The teacher smiles every day. | The teacher smile every day."""
    noun, verb, when = random.choice(words.PEOPLE), random.choice(words.DOINGS), random.choice(words.WHEN)
    return _both(f"The {noun[plural]} * {when}.", *_in_order(verb, plural))


def agreement_prepositional(random: Random, plural: bool) -> tuple[str, str]:
    """The teacher near the doctors smiles every day. | The teacher near the doctors smile every day."""
    (noun, other), verb = random.sample(words.PEOPLE, 2), random.choice(words.DOINGS)
    near, when = random.choice(words.NEAR), random.choice(words.WHEN)
    return _both(f"The {noun[plural]} {near} the {other[not plural]} * {when}.", *_in_order(verb, plural))


def agreement_relative(random: Random, plural: bool) -> tuple[str, str]:
    """The teacher that the doctors admire smiles every day. | The teacher that the doctors admire smile every day."""
    (noun, other), verb = random.sample(words.PEOPLE, 2), random.choice(words.DOINGS)
    feels, when = random.choice(words.FEELINGS)[not plural], random.choice(words.WHEN)
    return _both(f"The {noun[plural]} that the {other[not plural]} {feels} * {when}.", *_in_order(verb, plural))


def determiner_noun(random: Random, plural: bool) -> tuple[str, str]:
    """Anna bought this chair. | Anna bought this chairs."""
    name = random.choice(words.MEN_BY_NAME + words.WOMEN_BY_NAME)
    verb, thing = random.choice(words.ALWAYS_WITH_OBJECT), random.choice(words.THINGS)
    determiner = random.choice(("these", "those") if plural else ("this", "that"))
    return _both(f"{name} {verb} {determiner} *.", *_in_order(thing, plural))


def anaphor_number(random: Random, plural: bool) -> tuple[str, str]:
    """The queen admired herself again. | The queen admired themselves again."""
    nouns, own = random.choice(((words.MEN, "himself"), (words.WOMEN, "herself")))
    noun, verb, once = random.choice(nouns), random.choice(words.TO_ONESELF), random.choice(words.ONCE)
    return _both(f"The {noun[plural]} {verb} * {once}.", *_in_order((own, "themselves"), plural))


def anaphor_gender(random: Random, female: bool) -> tuple[str, str]:
    """Anna admired herself again. | Anna admired himself again."""
    nouns, names = (words.WOMEN, words.WOMEN_BY_NAME) if female else (words.MEN, words.MEN_BY_NAME)
    who = random.choice([*names, *(f"The {noun}" for noun, _ in nouns)])
    verb, once = random.choice(words.TO_ONESELF), random.choice(words.ONCE)
    return _both(f"{who} {verb} * {once}.", *_in_order(("himself", "herself"), female))


def irregular_participle(random: Random, perfect: bool) -> tuple[str, str]:
    """The teacher had broken the cup. | The teacher had broke the cup."""
    (noun, _), (past, participle, objects) = random.choice(words.PEOPLE), random.choice(words.IRREGULAR)
    had = "had " if perfect else ""
    return _both(f"The {noun} {had}* the {random.choice(objects)}.", *_in_order((past, participle), perfect))


def negative_polarity(random: Random, of_any: bool) -> tuple[str, str]:
    """No teacher has ever smiled in the kitchen. | Some teacher has ever smiled in the kitchen."""
    noun, plural = random.choice(words.PEOPLE), random.random() < 0.5
    licensor = ("Few", "Many") if plural else ("No", "Some")
    if of_any:
        rest = f"{random.choice(words.ALWAYS_WITH_OBJECT)} any {random.choice(words.THINGS)[1]}"
    else:
        place = random.choice(words.WHERE)
        rest = f"{'have' if plural else 'has'} ever {random.choice(words.NEVER_WITH_OBJECT)} {place}"
    return _both(f"* {noun[plural]} {rest}.", *licensor)


def argument_structure(random: Random, with_object: bool) -> tuple[str, str]:
    """The teacher found the chair. | The teacher smiled the chair."""
    noun, plural = random.choice(words.PEOPLE), random.random() < 0.5
    verbs = random.choice(words.NEVER_WITH_OBJECT), random.choice(words.ALWAYS_WITH_OBJECT)
    rest = f"the {random.choice(words.THINGS)[0]}" if with_object else random.choice(words.ONCE)
    return _both(f"The {noun[plural]} * {rest}.", *_in_order(verbs, with_object))


def wh_gap(random: Random, gap: bool) -> tuple[str, str]:
    """Anna knows what the teacher found. | Anna knows that the teacher found."""
    name = random.choice(words.MEN_BY_NAME + words.WOMEN_BY_NAME)
    knows, found = random.choice(words.OF_KNOWLEDGE), random.choice(words.ALWAYS_WITH_OBJECT)
    what = "" if gap else f" the {random.choice(words.THINGS)[0]}"
    return _both(
        f"{name} {knows} * the {random.choice(words.PEOPLE)[0]} {found}{what}.", *_in_order(("that", "what"), gap)
    )


def existential_there(random: Random, plural: bool) -> tuple[str, str]:
    """There was a teacher in the garden. | There was every teacher in the garden."""
    noun, where = random.choice(words.PEOPLE)[plural], random.choice(words.WHERE)
    weak = random.choice(("many", "several", "three") if plural else ("a", "one", "no"))
    strong = random.choice(("all", "most") if plural else ("every", "each"))
    return _both(f"There {'were' if plural else 'was'} * {noun} {where}.", weak, strong)


def adverb_order(random: Random, plural: bool) -> tuple[str, str]:
    """The teacher quickly found the chair. | The teacher found quickly the chair."""
    noun, thing = random.choice(words.PEOPLE)[plural], random.choice(words.THINGS)[0]
    how, found = random.choice(words.MANNER), random.choice(words.ALWAYS_WITH_OBJECT)
    return _both(f"The {noun} * the {thing}.", f"{how} {found}", f"{found} {how}")


PARADIGMS = {
    "agreement_plain": Paradigm("subject-verb agreement", agreement_plain),
    "agreement_prepositional": Paradigm("subject-verb agreement", agreement_prepositional),
    "agreement_relative": Paradigm("subject-verb agreement", agreement_relative),
    "determiner_noun": Paradigm("determiner-noun agreement", determiner_noun),
    "anaphor_number": Paradigm("anaphor agreement", anaphor_number),
    "anaphor_gender": Paradigm("anaphor agreement", anaphor_gender),
    "irregular_participle": Paradigm("irregular forms", irregular_participle),
    "negative_polarity": Paradigm("negative polarity items", negative_polarity),
    "argument_structure": Paradigm("argument structure", argument_structure),
    "wh_gap": Paradigm("filler-gap dependencies", wh_gap),
    "existential_there": Paradigm("quantifiers", existential_there),
    "adverb_order": Paradigm("word order", adverb_order, changed=2),
}
