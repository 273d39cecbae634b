"""What a finished folder says about itself, and how it is written so that unfinished work is never taken for finished.

A folder counts as done when it holds a `manifest.json` with the expected key whose files match their SHA-256.
The manifest is written last, by temporary file and rename. A failed step leaves `error.json` instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
ERROR = "error.json"


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write `content` so that `path` holds either the old or the whole new content, also after a kill."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Atomic, readable, and strict: NaN and infinity are refused since JSON has neither."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def hash_file(path: Path) -> str:
    """SHA-256 of the file's bytes as hex, streamed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_folder(folder: Path) -> dict[str, str]:
    """Relative posix path -> SHA-256 of every file below `folder` but its own manifest."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: hash_file(path) for name, path in names.items() if name != MANIFEST}


def key_of(*parts: Any) -> str:
    """Content key of JSON-able parts: equal parts in equal order give the equal key, whatever the dict order."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Manifest:
    """`edits` are the changes of shape to replay when loading, `facts` what the step measured about its own work."""

    key: str
    step: str
    settings: dict[str, Any]
    parent: str | None
    format: str  # "torch" | "onnx"
    task: str
    family: str
    seed: int
    edits: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    files: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Mark `folder` as done."""
        write_json(folder / MANIFEST, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The folder's manifest, or None where there is none or it is not a whole one."""
        try:
            return cls(**json.loads((folder / MANIFEST).read_text()))
        except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, UnicodeDecodeError, TypeError):
            return None

    def mismatches(self, folder: Path) -> list[str]:
        """Names of files that are missing, changed or unknown since the manifest was written."""
        found = hash_folder(folder)
        return sorted(name for name in found.keys() | self.files.keys() if found.get(name) != self.files.get(name))


def is_done(folder: Path, key: str) -> bool:
    """True when `folder` holds the finished, undamaged work of `key`."""
    manifest = Manifest.read(folder)
    return manifest is not None and manifest.key == key and not manifest.mismatches(folder)
