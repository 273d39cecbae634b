"""What is wrong at one place of a config, in words. Problems are collected, so that all are told at once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """`where` is the path of keys and list indices. `line` is set where it is not the line of that path; `override`
    where the fault is in a `--set` that could not be applied at all."""

    where: Where
    text: str
    line: int | None = None
    override: bool = False


def dotted(where: Where) -> str:
    """`("variants", "half", 0, "quantize")` -> `variants.half[0].quantize`, the form that `--set` takes too."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in where]
    return "".join(parts).removeprefix(".")


def shown(value: Any, limit: int = 60) -> str:
    """A value as it would stand in the file, cut to `limit` characters."""
    if isinstance(value, str):
        text = repr(value)
    elif isinstance(value, float) and value != value:
        text = ".nan"
    else:
        text = json.dumps(value, ensure_ascii=False).replace("Infinity", ".inf")
    return text if len(text) <= limit else text[: limit - 3] + "..."
