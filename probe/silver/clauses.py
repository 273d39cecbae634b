"""Coordination inversion: sentences of two clauses joined by a conjunction, with the clauses in their order or changed
about (Conneau et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from probe.balance import Item
from probe.silver.grammar import SUBJECTS, dependents, root_of
from probe.silver.parser import ParsedSentence
from probe.treebank import Sentence

CLASSES = ("intact", "inverted")
KEEP_CASE = {"NNP", "NNPS"}  # tags of words whose first letter is a capital anywhere


class Clauses(NamedTuple):
    """A sentence cut up: the first clause, what joins them (`, and`), the second, and the marks at the end, with the
    capital already moved from the first clause to the second. `words`: how many each clause has, marks left out."""

    first: str
    joint: str
    second: str
    end: str
    words: tuple[int, int]

    @property
    def inverted(self) -> str:
        """The second clause first."""
        return f"{self.second}{self.joint}{self.first}{self.end}"


def clause_items(sentences: Iterable[ParsedSentence], seed: int) -> Iterator[Item]:
    """Those that have two such clauses, each intact or inverted by chance. The longer clause comes first as often in
    both classes (`stratum`)."""
    rng = np.random.default_rng(seed)
    for sentence in sentences:
        if (clauses := two_clauses(sentence)) is not None:
            inverted = bool(rng.integers(2))
            shown = clauses.words[::-1] if inverted else clauses.words
            text = clauses.inverted if inverted else sentence.text
            yield Item(text, CLASSES[inverted], int(np.sign(shown[0] - shown[1])), sentence.text)


def two_clauses(sentence: ParsedSentence) -> Clauses | None:
    """None where the root has not one joined clause, with a subject in both, on either side of its conjunction."""
    tree, root = sentence.tree, root_of(sentence.tree)
    below = dependents(tree, root)
    joined = [at for at in below if tree.deprel[at] == "conj"]
    joints = [at for at in below if tree.deprel[at] == "cc"]
    if len(joined) != 1 or len(joints) != 1 or not (_has_subject(tree, root) and _has_subject(tree, joined[0])):
        return None
    spoken = tree.spoken
    second = sorted(_subtree(tree, joined[0]) & set(spoken))
    first = [at for at in spoken if at not in second and at != joints[0]]
    if not first or not first[-1] < joints[0] < second[0]:
        return None
    return _cut(sentence, first[-1], second[0], second[-1], (len(first), len(second)))


def _cut(sentence: ParsedSentence, last: int, start: int, end: int, words: tuple[int, int]) -> Clauses:
    """By the last word of the first clause, and the first and the last word of the second."""
    text, spans, tree = sentence.text, sentence.spans, sentence.tree
    first, joint = text[: spans[last][1]], text[spans[last][1] : spans[start][0]]
    second, marks = text[spans[start][0] : spans[end][1]], text[spans[end][1] :]
    if text[:1].isupper():
        keep = tree.xpos[0] in KEEP_CASE or tree.words[0] == "I" or text[1:2].isupper()
        first = first if keep else first[:1].lower() + first[1:]
        second = second[:1].upper() + second[1:]
    return Clauses(first, joint, second, marks, words)


def _has_subject(tree: Sentence, verb: int) -> bool:
    return any(tree.deprel[at] in SUBJECTS for at in dependents(tree, verb))


def _subtree(tree: Sentence, top: int) -> set[int]:
    found, new = {top}, [top]
    while new:
        new = [at for head in new for at in dependents(tree, head)]
        found |= set(new)
    return found
