"""Pydantic's errors in the words of a config: the value given, what is allowed, the nearest valid name.

Values are validated as JSON, where a list may stand for a tuple and `1` for a float, but nothing else is converted:
`"3"` is not a number and `1` is not `true`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from assay.core.config.problems import Problem, Where, shown

Model = TypeVar("Model", bound=BaseModel)
Unknown = Callable[[Where, type[BaseModel]], str]

_KINDS = {
    "int": "a whole number",
    "int_from_float": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "none": "null",
}
_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "multiple_of": ("a multiple of", "multiple_of"),
}


def validate(model: type[Model], value: Any, where: Where, unknown: Unknown) -> tuple[Model | None, list[Problem]]:
    """`value` as a `model`, or every problem in it. `unknown(path inside model, model)` words an unknown setting."""
    try:
        return model.model_validate_json(json.dumps(value)), []
    except ValidationError as error:
        return None, _problems(error, model, value, where, unknown)


def _problems(
    error: ValidationError, model: type[BaseModel], value: Any, where: Where, unknown: Unknown
) -> list[Problem]:
    """One problem a place. A choice of types fails once for each; the one that reaches deepest is the one meant."""
    texts: dict[Where, list[str]] = {}
    for detail in error.errors(include_url=False):
        path, given = _locate(detail["loc"], value, detail["type"])
        text = unknown(path, model) if detail["type"] == "extra_forbidden" else _words(detail, given)
        texts.setdefault(path, []).append(text)
    deepest = [path for path in texts if not any(_is_inside(other, path) for other in texts)]
    return [Problem((*where, *path), _neither(texts[path])) for path in deepest]


def _neither(texts: list[str]) -> str:
    """`'x' is not a list`, `'x' is not text` -> `'x' is not a list, nor text`: the value is named once."""
    first, *others = dict.fromkeys(texts)
    head = first.partition(" is not ")[0] + " is not "
    return ", nor ".join([first, *(other.removeprefix(head) for other in others)])


def _is_inside(path: Where, outer: Where) -> bool:
    return len(path) > len(outer) and path[: len(outer)] == outer


def _locate(loc: tuple[str | int, ...], value: Any, kind: str) -> tuple[Where, Any]:
    """Pydantic's place without the names of union branches that it holds, and the value there."""
    path: Where = ()
    for key in loc:
        if isinstance(value, dict) and str(key) in value:
            path, value = (*path, str(key)), value[str(key)]
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            path, value = (*path, key), value[key]
    return ((*path, loc[-1]), None) if kind == "missing" else (path, value)


def _words(detail: Any, given: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind == "literal_error":
        return f"{shown(given)} is not {_choices(context['expected'], given)}"
    if kind in _BOUNDS:
        bound, name = _BOUNDS[kind]
        return f"{shown(given)} is not {bound} {context[name]:g}"
    if allowed := _KINDS.get(kind.removesuffix("_type")):
        return f"{shown(given)} is not {allowed}"
    return _own_words(str(context.get("error", detail["msg"])), given)


def _own_words(message: str, given: Any) -> str:
    """The message of a model's own check, after the value unless that is a whole section or is named already."""
    is_named = isinstance(given, dict) or shown(given).strip("'") in message
    return message if is_named else f"{shown(given)}: {message}"


def _choices(expected: str, given: Any) -> str:
    choices = re.findall(r"'([^']*)'", expected)
    match = get_close_matches(str(given), choices, n=1, cutoff=0.6)
    return ("one of " if len(choices) > 1 else "") + expected + (f"; did you mean {match[0]!r}?" if match else "")
