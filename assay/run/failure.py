"""What went wrong, told twice: one line for the console, everything for a file beside the work.

A full disk or a folder that cannot be written to ends the job, since whatever comes next would fail as well.
"""

from __future__ import annotations

import errno
import math
import shutil
import traceback
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, InputError
from assay.core.manifest import ERROR, write_json

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG)
_SHOWN = 80  # characters of a path that is too long
_FULL_BYTES = 2**20  # with less than this free, some library's error means that the disk is full
_ADVICE = "see that there is room and permission, then start the same command again: finished work is kept"


class StepFailed(AssayError):
    """A step could not be done. The message is its one line, `told_in` the file with the traceback."""

    def __init__(self, message: str, told_in: Path) -> None:
        super().__init__(message)
        self.told_in = told_in


class DiskError(AssayError):
    """Nothing more can be written."""


def one_line(error: BaseException) -> str:
    """The message without line breaks; the type's name where the message alone says too little."""
    text = " ".join(str(error).split())
    return text if isinstance(error, AssayError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def leave_error(folder: Path, error: Exception) -> Path:
    """Write `error.json` with the line and the traceback into `folder` and return its path."""
    path = folder / ERROR
    write_json(path, {"error": one_line(error), "traceback": told(error)})
    return path


def told(error: Exception) -> list[str]:
    """The traceback, a line an item."""
    return "".join(traceback.format_exception(error)).splitlines()


def raise_disk_error(error: Exception, folder: Path) -> None:
    """DiskError where a full or unwritable disk is behind `error`, whichever library raised it."""
    if isinstance(error, OSError) and error.errno in _DISK:
        raise disk_error(error, folder) from error
    if shutil.disk_usage(folder).free < _FULL_BYTES:
        raise DiskError(f"{folder}: the disk is full ({one_line(error)}); {_ADVICE}") from error


def disk_error(error: OSError, folder: Path) -> DiskError:
    """One line with the path that could not be written."""
    return DiskError(f"{error.filename or folder}: {error.strerror}; {_ADVICE}")


def outside_error(error: OSError, folder: Path) -> AssayError | None:
    """The one line for an error that the disk or a path given to us is to blame for; None for a mistake of ours."""
    if error.errno == errno.ENAMETOOLONG:
        return InputError(f"{str(error.filename)[:_SHOWN]}...: {error.strerror}; name a shorter path")
    return disk_error(error, folder) if error.errno in _DISK else None


def first_not_finite(value: Any, where: str = "") -> str | None:
    """`path is nan` for the first number in nested facts that JSON cannot hold; None where all are finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where} is {value}"
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = (first_not_finite(item, f"{where}.{key}".lstrip(".")) for key, item in items)
    return next((text for text in found if text), None)
