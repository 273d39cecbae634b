"""What a parsed sentence says of its grammar: tense of the main verb, number of its subject and of its object, depth of
the tree, what stands directly below the root (Conneau et al. 2018, https://aclanthology.org/P18-1198).

The paper reads constituents of the Stanford parser. Here depth is that of the dependency tree, and the constituents
below the root are the relations of its dependents, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from probe.silver.parser import ParsedSentence
from probe.treebank import Sentence
from probe.word_spans import fold

TENSES = {"VBP": "present", "VBZ": "present", "VBD": "past"}
NUMBERS = {"NN": "singular", "NNP": "singular", "NNS": "plural", "NNPS": "plural"}
AUXILIARIES = {"aux", "auxpass", "aux:pass", "cop"}
SUBJECTS, OBJECTS = {"nsubj", "nsubjpass", "nsubj:pass"}, {"dobj", "obj"}


class Marked(NamedTuple):
    """A property, and the word that shows it."""

    name: str
    word: str


def tense(sentence: ParsedSentence) -> Marked | None:
    """`present` or `past` by the tag of the main verb or its first auxiliary; None where there is no finite one, as
    with modal verbs, or no subject, as in a heading."""
    tree, root = sentence.tree, root_of(sentence.tree)
    if not any(tree.deprel[at] in SUBJECTS for at in dependents(tree, root)):
        return None
    verbs = [at for at in dependents(tree, root) if at < root and tree.deprel[at] in AUXILIARIES] + [root]
    name = TENSES.get(tree.xpos[verbs[0]])
    return Marked(name, fold(tree.words[verbs[0]])) if name else None


def subject_number(sentence: ParsedSentence) -> Marked | None:
    """`singular` or `plural` by the tag of the noun that is the main verb's subject."""
    return _number(sentence.tree, SUBJECTS)


def object_number(sentence: ParsedSentence) -> Marked | None:
    """`singular` or `plural` by the tag of the noun that is the main verb's direct object."""
    return _number(sentence.tree, OBJECTS)


def tree_depth(sentence: ParsedSentence) -> str:
    """The most steps from a word to the root, punctuation left out."""
    depths = sentence.tree.depths
    return str(max((depths[at] for at in sentence.tree.spoken), default=0))


def top_constituents(sentence: ParsedSentence) -> str:
    """The relations of the words that hang on the root, in their order, with V where the root itself stands."""
    tree, root = sentence.tree, root_of(sentence.tree)
    spoken = set(tree.spoken)
    places = [at for at in sorted([*dependents(tree, root), root]) if at in spoken or at == root]
    return " ".join("V" if at == root else tree.deprel[at] for at in places)


def root_of(tree: Sentence) -> int:
    """Place of the root."""
    return tree.heads.index(-1)


def dependents(tree: Sentence, head: int) -> list[int]:
    """Places of the words that hang on one."""
    return [at for at, own in enumerate(tree.heads) if own == head]


def _number(tree: Sentence, relations: Iterable[str]) -> Marked | None:
    """None where there is no such noun, or more than one, joined or not."""
    found = [at for at in dependents(tree, root_of(tree)) if tree.deprel[at] in relations]
    if len(found) != 1 or any(tree.deprel[at] == "conj" for at in dependents(tree, found[0])):
        return None
    name = NUMBERS.get(tree.xpos[found[0]])
    return Marked(name, fold(tree.words[found[0]])) if name else None
