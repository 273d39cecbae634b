"""One clear line for a model file that cannot be read: its path, its size and what probably happened to it."""

from __future__ import annotations

import json
from pathlib import Path

from assay.core.errors import InputError

LFS_POINTER = b"version https://git-lfs"
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
TOKENIZER_JSON = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json")


def check_content(path: Path) -> None:
    """InputError where the file is missing, empty or a Git LFS pointer instead of the content."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise unreadable(path, "the file is empty; write or download it again")
    with path.open("rb") as file:
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            raise unreadable(path, "this is a Git LFS pointer, not the file it stands for; run `git lfs pull`")


def check_weights(path: Path) -> None:
    """InputError unless `path` is a whole safetensors file. Reads its header and its length only."""
    from safetensors import SafetensorError, safe_open

    check_content(path)
    try:
        with safe_open(path, framework="np") as file:
            file.keys()
    except SafetensorError as error:
        raise truncated(path, error) from None


def check_reader(folder: Path, images: bool) -> None:
    """InputError unless the folder says how rows are read: image settings, or a tokenizer whose files are whole."""
    from assay.core.model.image_settings import read_settings

    (read_settings if images else check_tokenizer)(folder)


def check_tokenizer(folder: Path) -> None:
    """InputError unless a tokenizer lies in `folder` and its files can be read: `tokenizer.json` by the library that
    uses it, the other JSON files as JSON, the rest by its size."""
    found = [folder / name for name in TOKENIZERS if (folder / name).is_file()]
    if not found:
        raise InputError(f"{folder}: no tokenizer; one of {', '.join(TOKENIZERS)} must be there")
    for path in found:
        check_content(path)
    for path in (folder / name for name in TOKENIZER_JSON if (folder / name).is_file()):
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise truncated(path, error) from None
    if (path := folder / "tokenizer.json") in found:
        _check_fast_tokenizer(path)


def _check_fast_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers has no error class of its own
        raise truncated(path, error) from None


def truncated(path: Path, error: Exception) -> InputError:
    """The error for a file whose reader found that a part is missing."""
    return unreadable(path, f"probably truncated; write or download it again ({first_line(error)})")


def unreadable(path: Path, cause: str) -> InputError:
    """The error for a file that cannot be read: path, size, cause."""
    return InputError(f"{path}: {path.stat().st_size} bytes, cannot be read: {cause}")


def first_line(error: Exception) -> str:
    """What another library said, short enough to quote."""
    return str(error).strip().partition("\n")[0]
