"""Lines of a text file with their numbers, so that every complaint can say where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assay.core.address import resolve
from assay.core.errors import InputError, SettingError


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line without its end) of a UTF-8 file; InputError names the line that is not UTF-8.

    Only line feeds end a line: characters that Unicode counts as line ends may stand in a text."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise malformed(path, number, f"is not UTF-8 ({error.reason} at byte {error.start + 1})") from None
            yield number, line.rstrip("\r\n")


def lines_and_a_blank_one(path: Path) -> Iterator[tuple[int, str]]:
    """`numbered_lines`, and a blank line 0 that ends the last block of a file whose blocks end with blank lines."""
    yield from numbered_lines(path)
    yield 0, ""


def malformed(path: Path, number: int, what: str) -> InputError:
    """The one line that tells of a bad line."""
    return InputError(f"{path}:{number}: {what}")


def setting_file(address: str, setting: str) -> Path:
    """The file that a setting, written PROBE.SETTING, names; SettingError where there is none."""
    try:
        path = resolve(address)
    except InputError as error:
        raise SettingError(setting, str(error)) from None
    if not path.is_file():
        raise SettingError(setting, f"{path} is a folder; name a file")
    return path
