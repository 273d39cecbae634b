"""What there is: names with the first sentence of their own documentation. No method is imported for it."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

from assay.core.errors import InputError
from assay.core.model.anatomy import FAMILIES
from assay.core.plugins import PROBES, STEPS, nearest

PACKAGES = {"steps": STEPS.package, "probes": PROBES.package, "losses": "compress.losses"}
KINDS = (*PACKAGES, "families")
_END = re.compile(r"(?<!et al)(?<!eq)\.\s")  # of a sentence


def describe(kind: str) -> list[tuple[str, str]]:
    """(name, one line) of everything of a kind; InputError for a kind that there is not."""
    if kind == "families":
        stacks = {name: " and ".join(stack.layers for stack in family.stacks) for name, family in FAMILIES.items()}
        return [(name, f"layers at {paths}") for name, paths in stacks.items()]
    if kind not in PACKAGES:
        raise InputError(f"nothing to list under {kind!r}{nearest(kind, list(KINDS))}")
    return [(path.stem, _first_sentence(path)) for path in _modules(PACKAGES[kind])]


def _modules(package: str) -> list[Path]:
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or () if spec else ())]
    paths = [path for folder in folders for path in folder.glob("*.py") if not path.name.startswith("_")]
    return sorted(paths, key=lambda path: path.stem)


def _first_sentence(module: Path) -> str:
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return _END.split(paragraph, maxsplit=1)[0].removesuffix(".")
