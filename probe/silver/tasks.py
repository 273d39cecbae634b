"""SentEval's tasks that need a tagger or a parser, made from the job's own rows (Conneau et al. 2018, "What you can
cram into a single vector", https://aclanthology.org/P18-1198).

Sentences of 5 to 28 words are examples, as in the paper; the classes are of one size. What a task turns on, the verb of
`tense`, the noun of the numbers, the word put in by `odd_man_out`, stands in training or in test rows only. Depth and
length are parted: at each length all depths are equally frequent. The paper draws from 100,000 sentences of books; here
it is what is found among `MOST_SENTENCES` of each split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from probe.balance import Item, SplitName, balanced, commonest, side_of
from probe.silver import clauses, grammar, odd_word
from probe.silver.parser import ParsedSentence, parsed_rows, pipeline
from probe.tasks import Task

if TYPE_CHECKING:
    from probe.probe import ProbeContext

ParsedTask = Literal[
    "tense",
    "subject_number",
    "object_number",
    "tree_depth",
    "top_constituents",
    "odd_man_out",
    "coordination_inversion",
]
SPLITS: tuple[SplitName, ...] = ("train", "test")
MOST_SENTENCES = 10_000  # looked through in each split
MOST_ROWS = 10_000  # of each split, in which bigrams are counted
FEWEST_WORDS, MOST_WORDS = 5, 28
DEPTHS, ORDERS = 3, 9  # classes at most; of top_constituents the others are one more
OTHER = "other"
Mark = Callable[[ParsedSentence], grammar.Marked | None]
MARKS: dict[str, Mark] = {
    "tense": grammar.tense,
    "subject_number": grammar.subject_number,
    "object_number": grammar.object_number,
}
CLASSES = {
    "tense": ["past", "present"],
    "subject_number": ["plural", "singular"],
    "object_number": ["plural", "singular"],
    "odd_man_out": list(odd_word.CLASSES),
    "coordination_inversion": list(clauses.CLASSES),
}


@dataclass(frozen=True)
class ParsedTasks:
    """Makes tasks of at most `samples` training and `test_samples` test rows. All share one parse of the job's rows."""

    ctx: ProbeContext
    samples: int
    test_samples: int

    def make(self, name: ParsedTask) -> Task:
        """One task, with fewer rows or none where the job has no more; made once a run. InputError where no parser is
        installed."""
        key = f"task {name} {self.samples} {self.test_samples} {self.ctx.seed}"
        if key not in self.ctx.kept:
            self.ctx.kept[key] = self._made(name)
        return self.ctx.kept[key]

    def _made(self, name: ParsedTask) -> Task:
        train = list(self._items(name, "train"))
        origins = {item.origin for item in train}
        test = [item for item in self._items(name, "test") if item.origin not in origins]
        if name == "top_constituents":
            known = self._commonest(train, test, ORDERS)
            train, test = ([_known_or_other(item, known) for item in part] for part in (train, test))
        classes = CLASSES.get(name) or self._commonest(train, test, DEPTHS if name == "tree_depth" else ORDERS + 1)
        seed = self.ctx.seed
        rows = balanced(train, classes, self.samples, seed), balanced(test, classes, self.test_samples, seed)
        return Task(name, *rows, silver=True)

    def _commonest(self, train: Sequence[Item], test: Sequence[Item], most: int) -> list[str]:
        """The commonest classes in training, two to `most`, of those that test rows have too: as many as give the most
        bits of labels, where the rarest one says how many rows there are of each."""
        asked = [(Counter(item.label for item in train), self.samples)]
        if self.test_samples:
            asked.append((Counter(item.label for item in test), self.test_samples))
        known = [name for name in commonest(train, len(train)) if all(counts[name] for counts, _ in asked)][:most]

        def bits(few: int) -> float:
            rarest = [min(counts[name] for name in known[:few]) * few / count for counts, count in asked]
            return min(1.0, *rarest) * float(np.log2(few))

        return known[: max(range(2, len(known) + 1), key=bits, default=0)]

    def _items(self, name: ParsedTask, split: SplitName) -> Iterator[Item]:
        sentences = self._sentences[split]
        if name in MARKS:
            return self._marked(MARKS[name], split)
        if name == "odd_man_out":
            return odd_word.odd_items(sentences, *self._counted, partial(self._is_of, split), self.ctx.seed)
        if name == "coordination_inversion":
            return clauses.clause_items(sentences, self.ctx.seed)
        if name == "tree_depth":
            return (Item(each.text, grammar.tree_depth(each), len(each.tree.spoken)) for each in sentences)
        return (Item(each.text, grammar.top_constituents(each)) for each in sentences)

    @cached_property
    def _sentences(self) -> dict[SplitName, list[ParsedSentence]]:
        return {split: self._read(split) for split in SPLITS}

    def _read(self, split: SplitName) -> list[ParsedSentence]:
        most = MOST_SENTENCES if split == "train" or self.test_samples else 0
        return [each for each in parsed_rows(self.ctx, split, pipeline()).first(most) if self._fits(each)]

    def _marked(self, mark: Mark, split: SplitName) -> Iterator[Item]:
        """Sentences with a word that marks them. One that marks some of both splits is for one of them."""
        found = {each: [(sentence.text, mark(sentence)) for sentence in self._sentences[each]] for each in SPLITS}
        train, test = ({marked.word for _, marked in part if marked} for part in found.values())
        for text, marked in found[split]:
            if marked and (marked.word not in train & test or self._is_of(split, marked.word)):
                yield Item(text, marked.name)

    @cached_property
    def _counted(self) -> tuple[odd_word.Bigrams, dict[str, str]]:
        texts = [text for part in (self.ctx.data.train, self.ctx.data.test) for text in part.texts[:MOST_ROWS]]
        return odd_word.Bigrams.of(texts), odd_word.commonest_tags(self._sentences["train"])

    def _fits(self, sentence: ParsedSentence) -> bool:
        return FEWEST_WORDS <= len(sentence.tree.spoken) <= min(MOST_WORDS, self.ctx.data.max_length // 2)

    def _is_of(self, split: SplitName, word: str) -> bool:
        return side_of(word, self._test_share, self.ctx.seed) == split

    @cached_property
    def _test_share(self) -> float:
        """In [0, 1], of the words that a task turns on, those for test rows: as many as make both splits equally short
        of what is asked for."""
        train, test = (len(self._sentences[split]) for split in SPLITS)
        missing = self.test_samples * train
        return missing / (missing + self.samples * test) if missing else 0.0


def _known_or_other(item: Item, known: Sequence[str]) -> Item:
    return item if item.label in known else replace(item, label=OTHER)
