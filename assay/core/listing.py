"""What there is: names with the first sentence of their own documentation."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from assay.core.errors import InputError
from assay.core.plugins import PROBES, STEPS, Shelf, nearest

KINDS = ("steps", "probes", "losses", "families")


def describe(kind: str) -> list[tuple[str, str]]:
    """(name, one line) of everything of a kind; InputError for a kind that there is not."""
    if kind == "steps":
        return [(name, _first_line(STEPS, name)) for name in STEPS.names()]
    if kind == "probes":
        return [(name, _first_line(PROBES, name)) for name in PROBES.names()]
    if kind == "losses":
        package = importlib.import_module("compress.losses")
        names = [module.name for module in pkgutil.iter_modules(package.__path__)]
        return [(name, _head(importlib.import_module(f"compress.losses.{name}").__doc__)) for name in names]
    if kind == "families":
        from assay.core.model.anatomy import FAMILIES

        return [(name, f"layers at {family.layers}") for name, family in FAMILIES.items()]
    raise InputError(f"no kind named {kind!r}{nearest(kind, list(KINDS))}")


def _first_line(shelf: Shelf, name: str) -> str:
    return _head(inspect.getmodule(shelf.get(name)).__doc__)


def _head(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
