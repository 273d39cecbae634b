"""`--set a.b=c`: one value of a config changed from the command line.

The value is YAML, so `1e-5` is a number and `[1, 2]` a list. List items are written `[0]` or `.0`.
"""

from __future__ import annotations

import re
from typing import Any

from assay.core.config.problems import Problem, Where, dotted, shown
from assay.core.config.yaml_lines import Document, parse_value
from assay.core.plugins import nearest


def apply_overrides(document: Document, overrides: list[str]) -> list[Problem]:
    """Change `document.value` in place, in the order given; what cannot be set comes back as problems.

    A key that no setting has is set all the same: validation names it like any unknown key of the file."""
    return [problem for override in overrides if (problem := _apply(document, override))]


def _apply(document: Document, override: str) -> Problem | None:
    path, equals, text = override.partition("=")
    if not equals or not path.strip():
        return Problem((), f"{override!r} is not of the form path=value", override=True)
    try:
        document.overridden.append(_store(document.value, _tokens(path), parse_value(text)))
    except _Refused as refused:
        return Problem(refused.where, refused.text, override=True)
    except ValueError as error:
        return Problem((path.strip(),), str(error), override=True)
    return None


def _tokens(path: str) -> list[str]:
    return re.sub(r"\[(\d+)\]", r".\1", path.strip()).split(".")


class _Refused(Exception):
    def __init__(self, where: Where, text: str) -> None:
        super().__init__(text)
        self.where = where
        self.text = text


def _store(root: Any, tokens: list[str], value: Any) -> Where:
    """Walk down to the last key, opening empty settings on the way, and put the value there.

    Returns the path that is new or changed: of keys that the file did not have, the outermost."""
    node = root
    where: Where = ()
    new: Where = ()
    while True:
        key, tokens = _next_key(node, tokens, where)
        where = (*where, key)
        if isinstance(node, dict) and key not in node:
            new = new or where
        if not tokens:
            node[key] = value
            return new or where
        node[key] = node = _opened(node, key, tokens[0])


def _next_key(node: Any, tokens: list[str], where: Where) -> tuple[str | int, list[str]]:
    if isinstance(node, list):
        return _index(node, tokens[0], where), tokens[1:]
    if not isinstance(node, dict):
        raise _Refused(where, f"{shown(node)} has no settings below it, so {'.'.join(tokens)!r} cannot be set")
    for end in range(len(tokens), 0, -1):  # a variant's name may hold dots: the longest known key wins
        if (key := ".".join(tokens[:end])) in node:
            return key, tokens[end:]
    _refuse_new(node, tokens, where)
    return tokens[0], tokens[1:]


def _index(node: list[Any], token: str, where: Where) -> int:
    if not token.isdigit() or int(token) >= len(node):
        raise _Refused(where, f"no item {token!r}; the list has {len(node)}, counted from 0")
    return int(token)


def _refuse_new(node: dict[str, Any], tokens: list[str], where: Where) -> None:
    """New keys are for settings: a step cannot change its name, nor can a part of an unknown variant be set."""
    if where and isinstance(where[-1], int):
        name = next(iter(node), "")
        raise _Refused(where, f"this is {name!r}, not {tokens[0]!r}; to replace it, set {dotted(where)} as a whole")
    if where == ("variants",) and len(tokens) > 1:
        raise _Refused((*where, tokens[0]), f"no variant named {tokens[0]!r}{nearest(tokens[0], list(node))}")


def _opened(node: Any, key: str | int, following: str) -> Any:
    """The child to walk into: `export_onnx` and `export_onnx:` become `export_onnx: {}`."""
    child = node.get(key) if isinstance(node, dict) else node[key]
    if isinstance(key, int) and child == following:
        return {following: {}}
    return {} if child is None else child
