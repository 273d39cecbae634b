"""JSONL files of a probe: one object a line, with complaints that say where; a folder stands for its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.core.address import resolve
from assay.core.errors import InputError, SettingError
from probe.numbered_lines import malformed, numbered_lines


def setting_files(address: str, setting: str) -> list[Path]:
    """The file that a setting, written PROBE.SETTING, names, or all *.jsonl of a folder by name; SettingError where
    there is none."""
    try:
        path = resolve(address)
    except InputError as error:
        raise SettingError(setting, str(error)) from None
    found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not found:
        raise SettingError(setting, f"{path} holds no *.jsonl file")
    return found


def numbered_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number from 1, object) of each line that is not blank; InputError for one that is no JSON object."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise malformed(path, number, f"is not JSON ({error})") from None
        if "\\ud" in line.lower() and not _is_text(item):
            raise malformed(path, number, "holds half of a surrogate pair, which is no text")
        if not isinstance(item, dict):
            raise malformed(path, number, f"holds {type(item).__name__}, not an object such as {{...}}")
        yield number, item


def _is_text(item: Any) -> bool:
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def text_in(item: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of these fields that holds text that is not blank, without the space around it."""
    values = (item.get(name) for name in names)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), None)
