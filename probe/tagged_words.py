"""Sentences with a tag a word, from CoNLL-U files or from files of columns such as those with BIO entities or chunks.

A file of columns has one word a line, its tag in the last column, and a blank line between sentences. Columns are
parted by a tab or, where there is none, by spaces; every line has as many as the first (CoNLL-2000 has three,
CoNLL-2003 four). Lines of `-DOCSTART-` are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from assay.core.errors import InputError
from probe.numbered_lines import lines_and_a_blank_one, malformed
from probe.treebank import UNKNOWN, Column, Sentence, read_treebank

Tags = Literal["upos", "xpos", "deprel", "last_column"]
DOCUMENT = "-DOCSTART-"


@dataclass(frozen=True)
class TaggedSentence:
    """`_` is the tag of a word whose tag is not known."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(path: Path, tags: Tags) -> list[TaggedSentence]:
    """Sentences with one column of a CoNLL-U file as tags, or those of a file of columns.

    InputError with file and line for a malformed line, and for a file without any sentence or tag."""
    if tags == "last_column":
        sentences = read_columns(path)
    else:
        sentences = [tagged(each, tags) for each in read_treebank(path).sentences]
    if all(tag == UNKNOWN for sentence in sentences for tag in sentence.tags):
        raise InputError(f"{path}: no word has a tag in {tags}")
    return sentences


def tagged(sentence: Sentence, tags: Column) -> TaggedSentence:
    """A treebank's sentence with one of its columns as tags."""
    return TaggedSentence(sentence.words, getattr(sentence, tags))


def read_columns(path: Path) -> list[TaggedSentence]:
    """The sentences of a file of columns."""
    sentences, pairs, width = [], list[tuple[str, str]](), 0
    for number, line in lines_and_a_blank_one(path):
        if line.strip():
            cells = [cell.strip(" ") for cell in line.split("\t")] if "\t" in line else line.split(" ")
            width = width or len(cells)
            _check(path, number, cells, width)
            if cells[0] != DOCUMENT:
                pairs.append((cells[0], cells[-1]))
        elif pairs:
            words, tags = zip(*pairs, strict=True)
            sentences.append(TaggedSentence(words, tags))
            pairs = []
    if not sentences:
        raise InputError(f"{path}: no sentence in it; write one word and its tag a line, parted by a tab")
    return sentences


def draw_sentences(sentences: Sequence[TaggedSentence], count: int, seed: int) -> list[TaggedSentence]:
    """At most `count` of them, by chance, in the order of the file."""
    return [sentences[at] for at in drawn(len(sentences), count, seed)]


def drawn(of: int, count: int, seed: int) -> np.ndarray:
    """Positions of at most `count` of so many rows, ascending. The same seed gives the same."""
    return np.sort(np.random.default_rng(seed).permutation(of)[:count])


def _check(path: Path, number: int, cells: list[str], width: int) -> None:
    if len(cells) < 2:
        raise malformed(path, number, f"{cells[0]!r} alone; a line has a word and its tag, parted by a tab or a space")
    if len(cells) != width:
        raise malformed(path, number, f"{len(cells)} columns, the lines before have {width}")
    if not cells[0] or not cells[-1]:
        raise malformed(path, number, "the word or its tag is empty")
