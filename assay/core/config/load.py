"""YAML to a checked Job. Every fault is told at once, with file, line, path, the value given and what is allowed.

Nothing is loaded: methods are looked up by name and only their settings are checked, so this is quick and needs
neither torch nor transformers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.core.address import HUB, resolve
from assay.core.config.chain import check_formats, check_teacher, check_twice, read_entries, settings_of
from assay.core.config.job import BASELINES, Chain, Job, JobSettings, tiny
from assay.core.config.overrides import apply_overrides
from assay.core.config.places import Places
from assay.core.config.problems import Problem, Where, shown
from assay.core.config.schema import schema
from assay.core.config.validation import validate
from assay.core.config.yaml_lines import Document, read_yaml
from assay.core.data.settings import DataSettings
from assay.core.errors import ConfigError, InputError
from assay.core.measure.settings import MeasureSettings
from assay.core.plugins import PROBES, STEPS, Shelf

__all__ = ["Job", "JobSettings", "load_job", "schema", "tiny"]

_VARIANT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LONGEST = 100  # characters of a variant's name; file systems take 255 bytes
_MAY_BE_EMPTY = ("teacher", "probes", "measure")
_FILES: tuple[Where, ...] = (("model",), ("data", "source"), ("data", "test_source"), ("data", "validation_source"))


def load_job(
    path: Path | str,
    overrides: Sequence[str] = (),
    steps: Shelf = STEPS,
    probes: Shelf = PROBES,
    check_files: bool = True,
) -> Job:
    """The job of a YAML file after `--set` overrides. ConfigError holds all problems, in the order of the file.

    `check_files` also looks whether the model and the tables exist (not those on the hub, which may need a network)."""
    document = read_yaml(Path(path))
    _require_mapping(document)
    document.problems += apply_overrides(document, list(overrides))
    _drop_empty(document.value)
    places = Places({"": JobSettings, "data": DataSettings, "measure": MeasureSettings}, (steps, probes))
    top, problems = validate(JobSettings, document.value, (), places.unknown)
    document.problems += problems
    teacher = _read_teacher(document, steps, places)
    variants = _read_variants(document, steps, places)
    examined = _read_probes(document, probes, places)
    if check_files:
        document.problems += _missing_files(document.value)
    document.raise_problems()
    assert top is not None  # whatever keeps it from being built is a problem
    return Job(Path(path), top.seed, top.task, top.model, top.data, teacher, variants, examined, top.measure, document)


def _require_mapping(document: Document) -> None:
    if isinstance(document.value, dict):
        return
    document.raise_problems()
    if document.value is None:
        raise ConfigError([f"{document.file}:1: the file is empty; a job needs at least model, data and variants"])
    raise ConfigError([f"{document.file}:1: {shown(document.value)} is not a mapping of settings"])


def _drop_empty(value: dict[str, Any]) -> None:
    """`probes:` with every item commented out means no probes."""
    for name in _MAY_BE_EMPTY:
        if name in value and value[name] is None:
            del value[name]


def _read_teacher(document: Document, shelf: Shelf, places: Places) -> Chain:
    entries = read_entries(document, ("teacher",), document.value.get("teacher"), shelf, places)
    document.problems += check_formats(entries, shelf) + check_teacher(entries)
    return settings_of(entries)


def _read_variants(document: Document, shelf: Shelf, places: Places) -> dict[str, Chain]:
    variants = document.value.get("variants")
    chains: dict[str, Chain] = {}
    for name, items in variants.items() if isinstance(variants, dict) else ():
        entries = read_entries(document, ("variants", name), items, shelf, places)
        document.problems += check_formats(entries, shelf) + _check_variant(name, items, list(chains))
        chains[name] = settings_of(entries)
    return chains


def _check_variant(name: str, items: Any, earlier: list[str]) -> list[Problem]:
    """The name becomes a folder's name, so it must be one on every system."""
    texts = []
    if len(name) > _LONGEST:
        texts.append(f"a variant name of {len(name)} characters; at most {_LONGEST}")
    elif not _VARIANT.fullmatch(name):
        texts.append(f"{name!r} is not a variant name; use letters, digits, '_', and '-' or '.' after the first")
    if name in BASELINES:
        texts.append(f"{name!r} is the name of a baseline that every run has; choose another")
    if alike := [other for other in earlier if other.casefold() == name.casefold()]:
        texts.append(f"{name!r} and {alike[0]!r} differ only in case, which some file systems ignore; rename one")
    if items == []:
        texts.append("a variant needs at least one step")
    return [Problem(("variants", name), text) for text in texts]


def _read_probes(document: Document, shelf: Shelf, places: Places) -> Chain:
    entries = read_entries(document, ("probes",), document.value.get("probes"), shelf, places)
    document.problems += check_twice(entries)
    return settings_of(entries)


def _missing_files(value: dict[str, Any]) -> list[Problem]:
    found = [_missing(where, _at(value, where)) for where in _FILES]
    return [problem for problem in found if problem is not None]


def _missing(where: Where, address: Any) -> Problem | None:
    if not isinstance(address, str) or not address or address.startswith(HUB):
        return None
    try:
        resolve(address)
    except InputError as error:
        return Problem(where, str(error))
    return None


def _at(value: Any, where: Where) -> Any:
    for key in where:
        value = value.get(key) if isinstance(value, dict) else None
    return value
