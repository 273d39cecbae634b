"""Sentences with a syntactic tree, from CoNLL-U files (https://universaldependencies.org/format.html).

FORM, UPOS, XPOS, HEAD and DEPREL are read. Multiword ranges (`3-4`) and empty nodes (`5.1`) have no place in the tree:
they are left out and counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from assay.core.errors import InputError
from probe.numbered_lines import lines_and_a_blank_one, malformed

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
UNKNOWN = "_"
_RANGE = re.compile(r"[1-9][0-9]*-[1-9][0-9]*")
_EMPTY = re.compile(r"[0-9]+\.[1-9][0-9]*")

Column = Literal["upos", "xpos", "deprel"]


@dataclass(frozen=True)
class Sentence:
    """`line` is that of its first word. `heads` are positions of words from 0, -1 for the root, None where unknown; the
    other columns hold `_` there."""

    line: int
    words: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    heads: tuple[int | None, ...]
    deprel: tuple[str, ...]

    @property
    def fault(self) -> str | None:
        """Why its heads are no tree, or None: there must be one root, which every word leads to."""
        if None in self.heads:
            return f"word {self.heads.index(None) + 1} has no HEAD"
        roots = self.heads.count(-1)
        if roots != 1:
            return f"{roots} words have HEAD 0, one must"
        lost = next((at for at in range(len(self.words)) if self._depth(at) is None), None)
        return None if lost is None else f"the heads of word {lost + 1} lead in a circle"

    @property
    def depths(self) -> tuple[int, ...]:
        """Steps from each word to the root, 0 for the root itself, in a tree."""
        return tuple(self._depth(at) or 0 for at in range(len(self.words)))

    @property
    def spoken(self) -> list[int]:
        """Positions of the words that are no punctuation."""
        columns = zip(self.upos, self.deprel, strict=True)
        return [at for at, (upos, relation) in enumerate(columns) if upos != "PUNCT" and relation != "punct"]

    def _depth(self, at: int) -> int | None:
        """None where the way leads in a circle."""
        for steps in range(len(self.words)):
            head = self.heads[at]
            if head is None or head < 0:
                return steps
            at = head
        return None


@dataclass(frozen=True)
class Treebank:
    """`ranges` multiword ranges and `empty_nodes` were left out."""

    sentences: list[Sentence]
    ranges: int
    empty_nodes: int


class _Word(NamedTuple):
    line: int
    form: str
    upos: str
    xpos: str
    head: int | None
    deprel: str


def read_treebank(path: Path, trees: bool = False) -> Treebank:
    """All sentences of a file. InputError with file and line for a line that is not CoNLL-U, for a file without any
    sentence and, where `trees` are asked for, for heads that are no tree."""
    sentences, words, left = [], list[_Word](), {"ranges": 0, "empty_nodes": 0}
    for number, line in lines_and_a_blank_one(path):
        if line.startswith("#"):
            continue
        if line.strip():
            name = line.partition("\t")[0]
            kind = "ranges" if _RANGE.fullmatch(name) else "empty_nodes" if _EMPTY.fullmatch(name) else None
            word = _word(path, number, line, None if kind else len(words) + 1)
            if kind:
                left[kind] += 1
            else:
                words.append(word)
        elif words:
            sentences.append(_sentence(path, words, trees))
            words = []
    if not sentences:
        raise InputError(f"{path}: no sentence in it; CoNLL-U has one word a line, 10 columns parted by tabs")
    return Treebank(sentences, **left)


def _word(path: Path, number: int, line: str, expected: int | None) -> _Word:
    """One line; `expected` is the number the word must have, None for a line that is left out."""
    cells = line.split("\t")
    if len(cells) != len(COLUMNS):
        raise malformed(path, number, f"{len(cells)} columns parted by tabs, CoNLL-U has {len(COLUMNS)}")
    named = dict(zip(COLUMNS, cells, strict=True))
    if empty := [name for name, cell in named.items() if not cell]:
        raise malformed(path, number, f"{', '.join(empty)} is empty; write _ for what is not known")
    if expected is not None and named["ID"] != str(expected):
        raise malformed(path, number, f"ID is {named['ID']}, the next word of the sentence is {expected}")
    head = named["HEAD"]
    if head != UNKNOWN and not (head.isascii() and head.isdigit()):
        raise malformed(path, number, f"HEAD is {head!r}; it must be the ID of a word, 0 or _")
    return _Word(
        number, named["FORM"], named["UPOS"], named["XPOS"], None if head == UNKNOWN else int(head) - 1, named["DEPREL"]
    )


def _sentence(path: Path, words: list[_Word], tree: bool) -> Sentence:
    for at, word in enumerate(words):
        if word.head is not None and word.head >= len(words):
            raise malformed(path, word.line, f"HEAD is {word.head + 1}, the sentence has {len(words)} words")
        if word.head == at:
            raise malformed(path, word.line, f"HEAD is {at + 1}, the word itself")
    lines, *columns = zip(*words, strict=True)
    sentence = Sentence(lines[0], *columns)
    if tree and sentence.fault:
        raise malformed(path, sentence.line, f"the sentence that begins here is no tree: {sentence.fault}")
    return sentence
