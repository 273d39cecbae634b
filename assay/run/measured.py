"""Measure all variants side by side, once for a set of artifacts on a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from assay.core.artifact import Artifact
from assay.core.manifest import key_of, write_json
from assay.core.measure.settings import MeasureSettings
from assay.run.failure import one_line, raise_disk_error, told
from assay.run.progress import Display
from assay.run.results import read_result

MEASURE = "measure.json"
MEASURE_VERSION = 1  # goes up when the same artifacts and settings would be measured in another way
Progress = Callable[[int, int], None]


def measure_all(
    folder: Path,
    artifacts: Mapping[str, Artifact],
    settings: MeasureSettings,
    machine: dict[str, Any],
    display: Display,
) -> list[str]:
    """Write `measure.json` of the artifacts by variant, baselines first. Returns one line for each that failed."""
    path = folder / MEASURE
    written = settings.model_dump(mode="json")
    keys = {name: artifact.key for name, artifact in artifacts.items()}
    key = key_of("measure", MEASURE_VERSION, keys, written, machine)
    if read_result(path).get("key") == key:
        display.skip("measure")
        return []
    with display.task("measure") as progress:
        found = _measure(folder, artifacts, settings, progress)
    errors = [f"{name}: {figures['error']}" for name, figures in found["variants"].items() if figures.get("error")]
    errors += [f"{found['error']} (traceback: {path})"] if found.get("error") else []
    write_json(path, {"key": None if errors else key, "machine": machine, "settings": written, **found})
    return [f"measure: {error}" for error in errors]


def _measure(
    folder: Path, artifacts: Mapping[str, Artifact], settings: MeasureSettings, progress: Progress
) -> dict[str, Any]:
    from assay.core.measure.side_by_side import measure

    try:
        return {"variants": measure(artifacts, settings, progress)}
    except Exception as error:
        raise_disk_error(error, folder)
        return {"variants": {}, "error": one_line(error), "traceback": told(error)}
