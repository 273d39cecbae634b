"""Where a model or a table lies: `path`, `pkg:package/path/inside` or `hf:org/name`.

Only an `hf:` address may reach the network, and only because the user wrote it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from assay.core.errors import InputError
from assay.core.plugins import nearest

PACKAGE = "pkg:"
HUB = "hf:"


def resolve(address: str) -> Path:
    """The file or folder at `address`; relative paths start at the working directory.

    `hf:org/name` is a model on the Hugging Face hub, of which safetensors, tokenizer and JSON files are fetched.
    Raises InputError where nothing is there, naming the nearest file or the pip package to install."""
    if address.startswith(HUB):
        return _fetch_model(address)
    if address.startswith(PACKAGE):
        return _inside_package(address)
    try:
        path = Path(address).expanduser()
        there, is_link = path.exists(), path.is_symlink()
    except (OSError, RuntimeError) as error:
        raise InputError(f"{address[:80]}: not a usable path ({error})") from None
    if not there and is_link:
        raise InputError(f"{address}: a symbolic link to {path.readlink()}, which leads nowhere")
    if not there:
        raise InputError(f"{address}: no such file or folder{_neighbours(path)}")
    return path


def _inside_package(address: str) -> Path:
    package, _, inside = address.removeprefix(PACKAGE).partition("/")
    if not package.isidentifier():
        raise InputError(f"{address}: {package!r} is not a package name; write pkg:package/path/inside")
    spec = find_spec(package)
    if spec is None:
        raise InputError(f"{address}: package {package!r} is not installed; pip install {package.replace('_', '-')}")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    found = next((folder / inside for folder in folders if (folder / inside).exists()), None)
    if found is None:
        hint = _neighbours(folders[0] / inside) if folders else ""
        raise InputError(f"{address}: package {package!r} holds no {inside!r}{hint}")
    return found


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist either"
    names = sorted(item.name for item in path.parent.iterdir() if not item.name.startswith((".", "__")))
    return nearest(path.name, names[:20]) if names else f"; {path.parent} is empty"


def _fetch_model(address: str) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["*.safetensors", "*.json", "*.txt", "*.model"]
    try:
        return Path(snapshot_download(address.removeprefix(HUB), allow_patterns=patterns))
    except (OSError, ValueError) as error:
        raise InputError(f"{address}: cannot be fetched from the hub ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
