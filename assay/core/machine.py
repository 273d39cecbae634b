"""What this machine and this installation are, and what `assay doctor` finds wrong with them. Imports no torch."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import psutil
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import assay
from assay.core.cpu import EXACT_INT8, bf16_note, cpu_flags, cpu_name, int8_note
from assay.core.model.generations import generation, version_of, why_no_optimum

__all__ = ["Finding", "describe_machine", "doctor", "int8_note", "package_versions"]

PACKAGES = (
    "assay",
    "torch",
    "transformers",
    "optimum",
    "optimum-onnx",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "tokenizers",
    "safetensors",
    "accelerate",
    "datasets",
    "scikit-learn",
    "scipy",
    "numpy",
    "pandas",
    "pillow",
    "spacy",
)
IMPORT_NAMES = ("assay", "compress", "probe", "reports")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LOW_DISK_GIB, NO_DISK_GIB = 10, 1  # the environment is 2 GB; a run of five small variants writes about as much

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line of `assay doctor`: a `warn` works with a drawback, a `fail` does not work."""

    name: str
    state: State
    text: str


def describe_machine() -> dict[str, Any]:
    """Facts that figures depend on, JSON-able and the same at every call. What cannot be found out is "unknown"."""
    return {
        "cpu": cpu_name(),
        "cores": psutil.cpu_count(logical=False) or "unknown",
        "threads": psutil.cpu_count() or "unknown",
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "flags": cpu_flags(),
    }


def package_versions() -> dict[str, str]:
    """Installed versions of the packages that results depend on; those that are not installed are left out."""
    versions = {name: version_of(name) for name in PACKAGES}
    return {name: version for name, version in versions.items() if version is not None}


def doctor() -> list[Finding]:
    """Everything worth knowing before a run, in the order in which to put it right."""
    flags, owners = cpu_flags(), importlib.metadata.packages_distributions()
    return [
        _python(),
        *_requirements(),
        *_generation(),
        _torch_build(),
        *(_owner(name, owners.get(name, [])) for name in IMPORT_NAMES),
        _threads(),
        Finding("cpu", "ok", f"{cpu_name()}; {_listed(flags)}"),
        Finding("int8", "ok" if any(flags.get(flag) for flag in EXACT_INT8) else "warn", int8_note(flags)),
        Finding("bf16", "ok", bf16_note(flags)),
        _disk(Path.cwd()),
        _browser(),
    ]


def _python() -> Finding:
    allowed = _metadata("Requires-Python")
    version = platform.python_version()
    fits = SpecifierSet(allowed).contains(version, prereleases=True)
    return Finding("python", "ok" if fits else "fail", f"{version}" + ("" if fits else f" is not {allowed}"))


def _metadata(key: str) -> str:
    return importlib.metadata.metadata("assay")[key] or ""


def _requirements() -> list[Finding]:
    """One finding a package that is missing or outside its range, or one that all is well."""
    needed = [Requirement(text) for text in importlib.metadata.requires("assay") or ()]
    unmet = [finding for item in needed if _applies(item) and (finding := _unmet(item))]
    listed = ", ".join(f"{name} {version}" for name, version in package_versions().items())
    return unmet or [Finding("packages", "ok", listed)]


def _applies(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _unmet(requirement: Requirement) -> Finding | None:
    version = version_of(requirement.name)
    if version is None:
        return Finding(requirement.name, "fail", f"not installed; pip install '{requirement}'")
    if not requirement.specifier.contains(version, prereleases=True):
        text = f"{version} is not {requirement.specifier}; pip install '{requirement}'"
        return Finding(requirement.name, "fail", text)
    return None


def _generation() -> list[Finding]:
    """Which of the two sets is in use; none where transformers is not there at all."""
    installed = version_of("transformers")
    if installed is None:
        return []
    other = "5" if generation() < 5 else "4.57"
    text = f"{installed}; folders that transformers {other} wrote open with the same token ids, or say what to install"
    return [Finding("transformers", "ok", text), _exporter()]


def _exporter() -> Finding:
    """Who writes the graphs of `export_onnx` here, and why it is not optimum."""
    absent = why_no_optimum()
    if absent is None:
        used = f"optimum {version_of('optimum')} with optimum-onnx {version_of('optimum-onnx')}"
        return Finding("exporter", "ok", f"{used}; or torch {version_of('torch')}, where export_onnx.exporter is torch")
    used = f"torch {version_of('torch')}; {absent}"
    if version_of("optimum-onnx") is None:
        return Finding("exporter", "ok", f"{used}; pip install 'assay[optimum]' adds it, with transformers below 4.58")
    advice = "pip install 'transformers>=4.57.6,<4.58', or pip uninstall optimum-onnx"
    return Finding("exporter", "warn", f"{used}; {advice}")


def _torch_build() -> Finding:
    """On Linux, PyPI's torch brings CUDA along, as packages named nvidia-cuda-*, nvidia-cudnn-* and so on."""
    names = {(found.metadata["Name"] or "").lower() for found in importlib.metadata.distributions()}
    extra = sorted(name for name in names if name.startswith("nvidia-cu"))
    if not extra:
        return Finding("torch build", "ok", f"{version_of('torch')}, CPU only")
    advice = "for a CPU machine, pip install torch --index-url https://download.pytorch.org/whl/cpu saves gigabytes"
    return Finding("torch build", "warn", f"{version_of('torch')} with CUDA ({len(extra)} nvidia packages); {advice}")


def _owner(name: str, distributions: Sequence[str]) -> Finding:
    """`compress`, `probe` and `reports` are common words: another distribution or a nearer folder may have them too."""
    found, expected = _folder(name), Path(assay.__file__).resolve().parent.parent / name
    if not distributions:
        return Finding(name, "fail", "no installed distribution provides it; pip install assay")
    if others := sorted(set(distributions) - {"assay"}):
        text = f"the import name {name!r} belongs to {', '.join(others)} too"
        return Finding(name, "fail", f"{text}; install assay into an environment of its own")
    if found != expected:
        return Finding(name, "fail", f"import {name} takes {found} instead of {expected}; work from another folder")
    return Finding(name, "ok", f"from assay, in {found}")


def _folder(name: str) -> Path | None:
    spec = find_spec(name)
    places = [] if spec is None else list(spec.submodule_search_locations or [spec.origin or ""])
    return Path(places[0]).resolve() if places else None


def _threads() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    text = f"{usable} usable of {psutil.cpu_count()}; OMP_NUM_THREADS {asked or 'not set'}"
    too_many = asked.isdigit() and int(asked) > usable
    return Finding("threads", "warn" if too_many else "ok", text + ("; more than there are slow all down" * too_many))


def _listed(flags: dict[str, bool]) -> str:
    has = ", ".join(flag for flag in flags if flags[flag])
    lacks = ", ".join(flag for flag in flags if not flags[flag])
    return f"has {has or 'none'}; lacks {lacks or 'none'}" if flags else "features unknown"


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free / 2**30
    state: State = "fail" if free < NO_DISK_GIB else "warn" if free < LOW_DISK_GIB else "ok"
    return Finding("disk", state, f"{free:.1f} GiB free in {folder}")


def _browser() -> Finding:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    return Finding("browser", "ok", found or "no chromium: the report tests that open a page are skipped")
