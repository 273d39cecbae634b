"""Semantic odd man out: sentences with a noun or verb in the place of another, or not (Conneau et al. 2018).

The other word has the same tag, and with its neighbours forms bigrams about as frequent as those that were there: equal
powers of two, as counted in the job's own rows. Sentences where no such word is to be had are left out of both classes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from probe.balance import Item
from probe.silver.parser import ParsedSentence
from probe.treebank import Sentence
from probe.word_spans import fold, word_spans

CLASSES = ("intact", "odd")
KINDS = {"NOUN", "VERB"}


@dataclass(frozen=True)
class Bigrams:
    """`after`: word -> the words that follow it, with nothing but white space between, and how often."""

    after: dict[str, Counter[str]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Bigrams:
        """Those of some texts, words as in `fold`."""
        after: dict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            spans = word_spans(text)
            for (start, end), (next_start, next_end) in pairwise(spans):
                if text[end:next_start].isspace():
                    after[fold(text[start:end])][fold(text[next_start:next_end])] += 1
        return cls(dict(after))

    def fill(self, before: str, word: str, behind: str) -> list[str]:
        """Words whose bigrams with `before` and `behind` are about as frequent as those of `word`, in order."""
        left, right = _magnitude(self.count(before, word)), _magnitude(self.count(word, behind))
        return sorted(
            other
            for other, n in self.after.get(before, Counter()).items()
            if other != word and _magnitude(n) == left and _magnitude(self.count(other, behind)) == right
        )

    def count(self, word: str, behind: str) -> int:
        """How often the second word follows the first."""
        return self.after[word][behind] if word in self.after else 0


def commonest_tags(sentences: Iterable[ParsedSentence]) -> dict[str, str]:
    """Of each word the tag that it has most often."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for word, tag in zip(sentence.tree.words, sentence.tree.xpos, strict=True):
            counts[fold(word)][tag] += 1
    return {word: own.most_common(1)[0][0] for word, own in counts.items()}


def odd_items(
    sentences: Sequence[ParsedSentence],
    bigrams: Bigrams,
    tags: dict[str, str],
    allowed: Callable[[str], bool],
    seed: int,
) -> Iterator[Item]:
    """Sentences that could have an odd word, each with one or without by chance; `allowed` are the words that may stand
    there."""
    rng = np.random.default_rng(seed)
    for sentence in sentences:
        for at in rng.permutation(_places(sentence.tree)).tolist():
            if others := _others(sentence, at, bigrams, tags, allowed):
                odd, word = bool(rng.integers(2)), str(rng.choice(others))
                text = _with(sentence, at, word) if odd else sentence.text
                yield Item(text, CLASSES[odd], made_of=sentence.text)
                break


def _places(tree: Sentence) -> list[int]:
    """Those of nouns and verbs between two words."""
    return [at for at in range(1, len(tree.words) - 1) if tree.upos[at] in KINDS]


def _others(
    sentence: ParsedSentence, at: int, bigrams: Bigrams, tags: dict[str, str], allowed: Callable[[str], bool]
) -> list[str]:
    before, word, behind = (fold(each) for each in sentence.tree.words[at - 1 : at + 2])
    if not allowed(word):
        return []  # in rows of one split it would be intact wherever it stands
    if not (bigrams.count(before, word) and bigrams.count(word, behind)):
        return []  # not words as they are counted: a part of one, or a mark beside it
    found = bigrams.fill(before, word, behind)
    return [other for other in found if tags.get(other) == sentence.tree.xpos[at] and allowed(other)]


def _with(sentence: ParsedSentence, at: int, word: str) -> str:
    start, end = sentence.spans[at]
    return sentence.text[:start] + (word.capitalize() if sentence.text[start].isupper() else word) + sentence.text[end:]


def _magnitude(count: int) -> int:
    return int(count).bit_length()
