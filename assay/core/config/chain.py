"""Lists of steps and probes of a config: every entry resolved by name, then checked to fit the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assay.core.config.job import Chain
from assay.core.config.places import Places
from assay.core.config.problems import Problem, Where, shown
from assay.core.config.validation import validate
from assay.core.config.yaml_lines import Document
from assay.core.errors import InputError
from assay.core.plugins import Shelf


@dataclass(frozen=True)
class Entry:
    """One entry of a list. `method` is its class, None for an unknown name; `settings` are None when wrong."""

    where: Where
    name: str
    method: Any = None
    settings: Any = None


def read_entries(document: Document, where: Where, items: Any, shelf: Shelf, places: Places) -> list[Entry]:
    """All entries of the list at `where`; what is wrong with each on its own goes into the document's problems.

    Something else than a list gives no entries: that it is no list is reported with the section it stands in."""
    entries = []
    for index, item in enumerate(items if isinstance(items, list) else []):
        entry, problems = _read_entry(item, (*where, index), shelf, places)
        document.problems += problems
        entries.append(entry)
    return entries


def settings_of(entries: list[Entry]) -> Chain:
    """Names with their settings; for entries without problems."""
    return tuple((entry.name, entry.settings) for entry in entries)


def _read_entry(item: Any, where: Where, shelf: Shelf, places: Places) -> tuple[Entry, list[Problem]]:
    """`name`, `name:` or `name: {settings}` as an Entry."""
    if text := _malformed(item, shelf.kind):
        return Entry(where, ""), [Problem(where, text)]
    name, given = (item, {}) if isinstance(item, str) else next(iter(item.items()))
    try:
        method = shelf.get(name)
    except InputError as error:
        return Entry(where, name), [Problem(where, places.wrong_list(name, shelf.kind) or str(error))]
    inside = (*where, name)
    if given is not None and not isinstance(given, dict):
        return Entry(where, name, method), [Problem(inside, f"{shown(given)} is not a mapping of settings")]
    settings, problems = validate(method, given or {}, inside, places.unknown)
    return Entry(where, name, method, settings), problems


def _malformed(item: Any, kind: str) -> str | None:
    if isinstance(item, str):
        return None
    if not isinstance(item, dict) or not item:
        return f"{shown(item)} is not a {kind}; write `- name` or `- name: {{settings}}`"
    name, *others = item
    if not others:
        return None
    advice = f"indent {', '.join(others)} below {name!r}" if item[name] is None else "give each its own '-'"
    return f"one {kind} an item, but this has {', '.join(item)}; {advice}"


def check_formats(entries: list[Entry], shelf: Shelf) -> list[Problem]:
    """Each step takes the format that the one before it gives; all chains start from a torch model."""
    if any(entry.method is None for entry in entries):
        return []
    problems = []
    current, giver = "torch", "the model"
    for entry in entries:
        if entry.method.takes != current:
            clash = f"{entry.name} takes {entry.method.takes} but {giver} gives {current}"
            problems.append(Problem(entry.where, f"{clash}; {_advice(entry, current, shelf)}"))
        current, giver = entry.method.gives, entry.name
    return problems


def _advice(entry: Entry, current: str, shelf: Shelf) -> str:
    methods: list[tuple[str, Any]] = [(name, shelf.get(name)) for name in shelf.names()]
    fitting = [name for name, step in methods if (step.takes, step.gives) == (current, entry.method.takes)]
    if fitting:
        return f"add {' or '.join(fitting)} before it"
    return f"nothing turns {current} into {entry.method.takes}: move it up, to where the model is {entry.method.takes}"


def check_teacher(entries: list[Entry]) -> list[Problem]:
    """The teacher is the torch model that variants start from, so it cannot learn from itself or end in a graph."""
    known = [entry for entry in entries if entry.method is not None]
    problems = [
        Problem(entry.where, f"{entry.name} learns from the teacher, so it can only stand in a variant")
        for entry in known
        if entry.method.uses_teacher
    ]
    if known and known[-1].method.gives != "torch":
        text = f"the teacher must end in torch but {known[-1].name} gives {known[-1].method.gives}"
        problems.append(Problem(known[-1].where, f"{text}; move it into the variants"))
    return problems


def check_twice(entries: list[Entry]) -> list[Problem]:
    """A probe's findings are kept under its name, so each can be listed once."""
    names = [entry.name for entry in entries]
    return [
        Problem(entry.where, f"{entry.name} is listed twice; each probe runs once a job")
        for index, entry in enumerate(entries)
        if entry.name and entry.name in names[:index]
    ]
