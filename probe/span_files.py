"""Labelled spans, and pairs of them, from files in the edge probing format of Tenney et al. 2019
(https://github.com/nyu-mll/jiant-v1-legacy/tree/master/probing): JSONL with `text` and `targets`, each a `label` with
`span1` and, in tasks of two spans, `span2`.

Spans are [start, end) in the words of `text`, which white space parts. Some released tasks give a target several
labels, each a yes-or-no question of its own; where one label is asked for, such a target has no right answer, so it is
left out and counted. What else a line or a target holds (`info`) is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import InputError
from probe.edge_targets import Target, TargetSentence
from probe.language.json_lines import numbered_objects, text_in
from probe.numbered_lines import malformed
from probe.word_spans import Span, fold

ENDINGS = (".jsonl", ".json")
SPANS = ("span1", "span2")
FORM = 'a line is {"text": "The dog ran", "targets": [{"span1": [0, 2], "label": "NP"}]}'


class _Line(NamedTuple):
    number: int
    words: tuple[str, ...]
    targets: list[tuple[tuple[Span, ...], list[str]]]  # spans and labels of each


def is_span_file(address: str) -> bool:
    """Told by the ending."""
    return Path(address).suffix.lower() in ENDINGS


def read_spans(path: Path) -> list[TargetSentence]:
    """All sentences with a target, the type of a target being the words of its first span without case.

    InputError with file and line for a line that is no JSON object or has no text or list of targets, for a span that
    is none in the text, for a target without label, and where some targets have `span2` and others have not; also for a
    file in which no target has exactly one label."""
    lines = [_line(path, *each) for each in numbered_objects(path)]
    _check_sides(path, lines)
    found = [_sentence(line) for line in lines if line.targets]
    if not any(sentence.targets for sentence in found):
        raise InputError(f"{path}: no target with one label; {FORM}")
    return found


def sides_of(sentences: Sequence[TargetSentence]) -> int:
    """How many spans each of their targets has: 1 or 2."""
    return next(len(target.spans) for sentence in sentences for target in sentence.targets)


def _line(path: Path, number: int, item: dict[str, Any]) -> _Line:
    text, targets = text_in(item, ("text",)), item.get("targets")
    if text is None:
        raise malformed(path, number, f"no text in text; {FORM}")
    if not isinstance(targets, list) or not all(isinstance(target, dict) for target in targets):
        raise malformed(path, number, f"targets is no list of objects; {FORM}")
    words, read = tuple(text.split()), list[tuple[tuple[Span, ...], list[str]]]()
    for at, target in enumerate(targets):
        try:
            read.append((_spans(target, len(words)), _labels(target)))
        except ValueError as error:
            raise malformed(path, number, f"targets[{at}].{error}") from None
    return _Line(number, words, read)


def _spans(target: dict[str, Any], words: int) -> tuple[Span, ...]:
    """ValueError, with the field's name, for one that is none in so many words."""
    given: dict[str, Any] = {
        name: target.get(name) for name in SPANS if name == SPANS[0] or target.get(name) is not None
    }
    for name, span in given.items():
        if fault := _fault(span, words):
            allowed = f"[start, end) in the {words} words of the text, counted from 0"
            raise ValueError(f"{name} is {span}, {fault}; it is {allowed}")
    return tuple((start, end) for start, end in given.values())


def _fault(span: Any, words: int) -> str | None:
    if not isinstance(span, list) or [type(each) for each in span] != [int, int]:
        return "not two whole numbers"
    start, end = span
    if not 0 <= start <= end <= words:
        return "not within the text"
    return "which is empty" if start == end else None


def _labels(target: dict[str, Any]) -> list[str]:
    """ValueError, with the field's name, where there is none."""
    given: Any = target.get("label")
    labels = given if isinstance(given, list) else [given]
    if not labels or not all(isinstance(label, str) and label.strip() for label in labels):
        raise ValueError(f"label is {given!r}; it must be text, or a list of text")
    return list(dict.fromkeys(label.strip() for label in labels))


def _check_sides(path: Path, lines: Sequence[_Line]) -> None:
    every = [(line.number, at, len(spans)) for line in lines for at, (spans, _) in enumerate(line.targets)]
    for number, at, sides in every:
        if sides != every[0][2]:
            said = "has no span2, those before have one" if sides == 1 else "has span2, those before have none"
            raise malformed(path, number, f"targets[{at}] {said}; give it to all targets of a file or to none")


def _sentence(line: _Line) -> TargetSentence:
    targets = [
        Target(spans, labels[0], fold(" ".join(line.words[slice(*spans[0])])))
        for spans, labels in line.targets
        if len(labels) == 1
    ]
    return TargetSentence(line.words, tuple(targets), len(line.targets) - len(targets))
