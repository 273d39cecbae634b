"""YAML as plain data that remembers the line of every value.

The node tree is turned into dict, list, str, int, float, bool and None: YAML 1.2, so `1e-5` is a number and `yes` is
text. Keys stay as written (`0: negative` has the key "0") and dates stay text. Anchors and aliases work; merge keys
(`<<`), tags beyond plain data, aliases that hold themselves or grow out of bounds, and endless nesting do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent

from assay.core.config.problems import Problem, Where, dotted, shown
from assay.core.errors import ConfigError

_PREFIX = "tag:yaml.org,2002:"
_AS_WRITTEN = {f"{_PREFIX}{name}" for name in ("str", "timestamp", "value", "merge")}
_PLAIN = {f"{_PREFIX}{name}" for name in ("null", "bool", "int", "float")}
_TAGS = {MappingNode: {f"{_PREFIX}map"}, SequenceNode: {f"{_PREFIX}seq"}, ScalarNode: _AS_WRITTEN | _PLAIN}
MAX_DEPTH = 50  # lists and mappings inside each other; a job needs eight
MAX_VALUES = 100_000  # counted where they stand, so that an alias counts each time it is used


@dataclass
class Document:
    """A YAML file: `value` is plain data, `lines` the line of each path, `overridden` the paths set by `--set`."""

    file: str
    value: Any = None
    lines: dict[Where, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    overridden: list[Where] = field(default_factory=list)

    def is_override(self, problem: Problem) -> bool:
        """True when the value at the problem's path came from `--set`."""
        return problem.override or any(problem.where[: len(path)] == path for path in self.overridden)

    def line(self, problem: Problem) -> int:
        """The problem's own line, else that of the innermost part of its path that stands in the file."""
        if problem.line is not None:
            return problem.line
        ends = range(len(problem.where), -1, -1)
        return next((self.lines[problem.where[:end]] for end in ends if problem.where[:end] in self.lines), 1)

    def render(self, problem: Problem) -> str:
        """`file:line: path: what is wrong`, or `--set: path: ...` for a value given there."""
        place = "--set" if self.is_override(problem) else f"{self.file}:{self.line(problem)}"
        return ": ".join(part for part in (place, dotted(problem.where), problem.text) if part)

    def raise_problems(self) -> None:
        """ConfigError with all problems in the order of the file, those of `--set` last; else nothing."""
        if self.problems:
            order = sorted(self.problems, key=lambda problem: (self.is_override(problem), self.line(problem)))
            raise ConfigError(list(dict.fromkeys(self.render(problem) for problem in order)))


def read_yaml(path: Path) -> Document:
    """The file as a Document. ConfigError when it cannot be read at all; lesser faults are in `problems`."""
    text, document = _read_text(path), Document(str(path))
    try:
        document.value = _build(text, document)
    except YAMLError as error:
        raise ConfigError([f"{path}:{_line_of(error, text)}: {_first_words(error)}"]) from None
    return document


def parse_value(text: str) -> Any:
    """One YAML value on its own, as `--set` takes it. ValueError when it is not YAML."""
    document = Document("")
    try:
        value = _build(text, document)
    except YAMLError as error:
        raise ValueError(f"{shown(text)} is {_first_words(error)}") from None
    if document.problems:
        raise ValueError("; ".join(problem.text for problem in document.problems))
    return value


class _OutOfBounds(MarkedYAMLError):
    """Valid YAML, but nothing that a config could mean."""


def _build(text: str, document: Document) -> Any:
    _check_depth(text)
    root = _parser().compose(text)
    return None if root is None else _Builder(document).build(root, (), ())


def _check_depth(text: str) -> None:
    """_OutOfBounds before nesting exhausts the stack of whatever walks down the tree."""
    depth = 0
    for event in _parser().parse(text):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _OutOfBounds(problem=f"nested deeper than {MAX_DEPTH} levels", problem_mark=event.start_mark)


def _parser() -> YAML:
    return YAML(typ="safe", pure=True)


def _read_text(path: Path) -> str:
    data = _read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        found = f"byte 0x{data[error.start]:02x}"
        raise ConfigError([f"{path}:{line}: not UTF-8 text ({found}); save the file as UTF-8"]) from None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError([f"{path}: no such file{_sibling(path)}"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None


def _sibling(path: Path) -> str:
    names = [other.name for pattern in ("*.yaml", "*.yml") for other in path.parent.glob(pattern)]
    match = get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f"; did you mean '{path.parent / match[0]}'?" if match else ""


def _line_of(error: YAMLError, text: str) -> int:
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return int(error.problem_mark.line) + 1
    return text.count("\n", 0, getattr(error, "position", 0)) + 1


def _first_words(error: YAMLError) -> str:
    words = str(getattr(error, "problem", None) or str(error).splitlines()[0])
    return words if isinstance(error, _OutOfBounds) else f"not valid YAML: {words}"


class _Builder:
    """Nodes to plain data; lines and faults go into the document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.construct = _parser().constructor.construct_object
        self.values = 0

    def build(self, node: Node, where: Where, parents: tuple[Node, ...]) -> Any:
        """Plain data of a node and all below it; `parents` are the nodes around it, to catch a node inside itself."""
        self.document.lines.setdefault(where, node.start_mark.line + 1)
        self.values += 1
        if self.values > MAX_VALUES:
            words = f"more than {MAX_VALUES:,} values once its aliases are filled in"
            raise _OutOfBounds(problem=words, problem_mark=node.start_mark)
        if node in parents:
            return self.fault(where, "an alias that holds itself", node)
        if not self.is_plain(node, where):
            return None
        if isinstance(node, MappingNode):
            return self.mapping(node, where, (*parents, node))
        if isinstance(node, SequenceNode):
            items = enumerate(node.value)
            return [self.build(item, (*where, index), (*parents, node)) for index, item in items]
        assert isinstance(node, ScalarNode)
        return self.scalar(node, where)

    def mapping(self, node: MappingNode, where: Where, parents: tuple[Node, ...]) -> dict[str, Any]:
        """Keys as written; a key given twice is a fault that names both lines."""
        result: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.fault(where, "a key must be a word or a number, not a list or mapping", key)
            elif key.value in result:
                self.twice(key, (*where, key.value))
            elif self.is_plain(key, (*where, key.value)):
                self.document.lines[(*where, key.value)] = key.start_mark.line + 1
                result[key.value] = self.build(value, (*where, key.value), parents)
        return result

    def is_plain(self, node: Node, where: Where) -> bool:
        """True when the tag says no more than the node's own kind; else a fault."""
        plain = str(node.tag) in _TAGS[type(node)]
        if not plain:
            self.fault(where, f"the tag {node.tag} is not known here; leave it out", node)
        return plain

    def scalar(self, node: ScalarNode, where: Where) -> Any:
        """The value YAML 1.2 gives it, dates as text; a fault where it is not what its tag says."""
        if str(node.tag) in _AS_WRITTEN:
            return node.value
        try:
            return self.construct(node)
        except (ValueError, KeyError):
            return self.fault(where, f"{node.value[:40]!r} is not a {str(node.tag).rpartition(':')[2]}", node)

    def twice(self, key: ScalarNode, where: Where) -> None:
        first = self.document.lines[where]
        self.fault(where, f"given twice, in line {first} and in line {key.start_mark.line + 1}", key)

    def fault(self, where: Where, text: str, node: Node) -> None:
        self.document.problems.append(Problem(where, text, node.start_mark.line + 1))
