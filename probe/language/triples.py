"""Triples of head, relation and tail, true or not, from files, and the sentences that templates make of them.

JSONL files hold `head`, `relation`, `tail` and perhaps `label` a line. All others hold relation, head, tail and perhaps
label parted by tabs, as those of Li et al. 2016 ("Commonsense Knowledge Base Completion",
https://aclanthology.org/P16-1137).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, SettingError
from probe.language.facts import ANSWER, SUBJECT
from probe.language.json_lines import numbered_objects, text_in
from probe.numbered_lines import malformed, numbered_lines
from probe.word_spans import Span

LABELS = {"1": True, "true": True, "0": False, "false": False}
FIELDS = ("relation", "head", "tail")
JSON = (".jsonl", ".json")


@dataclass(frozen=True)
class Triple:
    """`label` is None where the file does not say whether the triple is true."""

    relation: str
    head: str
    tail: str
    label: bool | None = None


@dataclass(frozen=True)
class Sentence:
    """A triple in words, and where its head and its tail stand, (start, end) in characters."""

    text: str
    head: Span
    tail: Span


def read_triples(path: Path) -> list[Triple]:
    """All triples of a file. InputError with the line for one without relation, head or tail, with another label than
    true or false, and for a label in some lines only."""
    read = _of_json if path.suffix in JSON else _of_columns
    triples = [(number, _triple(item, path, number)) for number, item in read(path)]
    if not triples:
        raise InputError(f"{path}: no triple; a line holds {', '.join(FIELDS)} and perhaps label")
    labelled = triples[0][1].label is not None
    for number, triple in triples:
        if (triple.label is not None) != labelled:
            said = ("has no label, the lines before have one", "has a label, the lines before have none")[not labelled]
            raise malformed(path, number, f"{said}; label all triples or none")
    return [triple for _, triple in triples]


def check_templates(templates: Mapping[str, Sequence[str]], triples: Sequence[Triple], setting: str) -> None:
    """SettingError, for a setting written PROBE.SETTING, where a relation of the triples has no template, and for a
    template that has not both [X], the head's place, and [Y], the tail's, once."""
    for relation in dict.fromkeys(triple.relation for triple in triples):
        if not templates.get(relation):
            there = ", ".join(templates) or "none"
            text = f"no template for relation {relation!r} of the triples; there are those of: {there}"
            raise SettingError(setting, text)
    for relation, each in templates.items():
        for template in each:
            if template.count(SUBJECT) != 1 or template.count(ANSWER) != 1:
                text = f"{relation}: {template!r} must have {SUBJECT} (head) once and {ANSWER} (tail) once"
                raise SettingError(setting, text)


def put_in(template: str, triple: Triple) -> Sentence:
    """The template with the triple's head and tail in their places."""
    words, spans, text = {SUBJECT: triple.head, ANSWER: triple.tail}, {}, ""
    for part in re.split(r"(\[X\]|\[Y\])", template):
        given = words.get(part, part)
        spans[part] = (len(text), len(text) + len(given))
        text += given
    return Sentence(text, spans[SUBJECT], spans[ANSWER])


def _of_json(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, item in numbered_objects(path):
        yield number, {name: text_in(item, (name,)) for name in FIELDS} | {"label": item.get("label")}


def _of_columns(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in numbered_lines(path):
        if line.strip():
            cells = [cell.strip() for cell in line.split("\t")]
            if len(cells) not in (3, 4):
                raise malformed(path, number, f"has {len(cells)} columns; it holds {', '.join(FIELDS)}, perhaps label")
            yield number, dict(zip((*FIELDS, "label"), cells, strict=False))


def _triple(item: Mapping[str, Any], path: Path, number: int) -> Triple:
    for name in FIELDS:
        if not item[name]:
            raise malformed(path, number, f"no text in {name}; a triple has {', '.join(FIELDS)}")
    given = item.get("label")
    if given is None:
        return Triple(*(item[name] for name in FIELDS))
    label = LABELS.get(str(given).strip().lower())
    if label is None:
        raise malformed(path, number, f"label {given!r} is neither true (1) nor false (0)")
    return Triple(item["relation"], item["head"], item["tail"], label)
