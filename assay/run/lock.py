"""One run at a time in a folder. The lock goes with the process, also after a kill."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.core.errors import InputError

LOCK = "run.lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder`, made where it is not there yet, for as long as the context lasts.

    InputError where another run holds it (with its process number), where it holds something else than a run, and
    where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_ours(folder)
        file = (folder / LOCK).open("a+")
    except OSError as error:
        raise InputError(f"{folder}: cannot be a run folder ({error.strerror}); name another with --out") from None
    with file:
        if not _taken(file.fileno()):
            file.seek(0)
            raise InputError(f"{folder}: another run is at work here (process {file.read().strip()}); wait or stop it")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def process_at_work(folder: Path) -> str | None:
    """The number of the process that holds `folder`; None where none does."""
    try:
        with (folder / LOCK).open() as file:
            return None if _taken(file.fileno()) else file.read().strip()
    except FileNotFoundError:
        return None


def _taken(descriptor: int) -> bool:
    """True when the lock is now ours; it is given back when the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _require_ours(folder: Path) -> None:
    found = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    if found and not {LOCK, "run.json"} & set(found):
        shown = ", ".join(sorted(found)[:4]) + ", ..." * (len(found) > 4)
        raise InputError(f"{folder}: not a run folder, and not empty (it holds {shown}); name another with --out")
