"""Methods are found by file name: `prune_heads` in YAML is `compress/steps/prune_heads.py`, which holds one class.

To add a method, add a file. Nothing is registered anywhere.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from assay.core.errors import InputError


def nearest(name: str, known: list[str]) -> str:
    """`; did you mean 'x'?` or the list of what exists. `lr` is near `learning_rate`: initials count as well."""
    match = get_close_matches(name, known, n=1, cutoff=0.6) or [full for full in known if _initials(full) == name]
    return f"; did you mean {match[0]!r}?" if match else f"; available: {', '.join(known) or 'none'}"


def _initials(name: str) -> str:
    return "".join(word[:1] for word in name.split("_"))


@dataclass(frozen=True)
class Shelf:
    """A package in which every module holds one class derived from `base` ("package.module:Class")."""

    kind: str
    package: str
    base: str

    def names(self) -> list[str]:
        """All method names, sorted."""
        path = importlib.import_module(self.package).__path__
        return sorted(module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_"))

    def get(self, name: str) -> type:
        """The class in the file of that name; InputError names the nearest one."""
        if name not in self.names():
            raise InputError(f"no {self.kind} named {name!r}{nearest(name, self.names())}")
        return _only_class(self, name)


@cache
def _only_class(shelf: Shelf, name: str) -> type:
    module_name, class_name = shelf.base.split(":")
    base = getattr(importlib.import_module(module_name), class_name)
    module = importlib.import_module(f"{shelf.package}.{name}")
    own = [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, base) and item.__module__ == module.__name__
    ]
    if len(own) != 1:
        raise ImportError(f"{shelf.package}.{name} must hold exactly one {class_name}, found {len(own)}")
    return own[0]


STEPS = Shelf("step", "compress.steps", "compress.step:Step")
PROBES = Shelf("probe", "probe.probes", "probe.probe:Probe")
