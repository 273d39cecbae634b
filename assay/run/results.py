"""Findings on disk: what is there under which key, and what no longer speaks of the job's models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

FINDINGS = ("metrics", "details", "skipped", "failed", "seconds")


def read_result(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none or it is damaged, so that it is found anew."""
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def known_findings(results: Path) -> dict[str, dict[str, Any]]:
    """Key -> what a probe found, over all variants: those that share the weights it looks at share its findings."""
    found = [read_result(path) for path in sorted(results.glob("*/probes/*.json"))]
    return {result["key"]: {part: result[part] for part in FINDINGS} for result in found if result.get("key")}


def drop_outdated(results: Path, keys: Mapping[str, str], probes: Collection[str]) -> None:
    """Remove findings about other weights than a variant of `keys` now has, and of probes that nobody asks for.

    Results of variants that the job no longer has stay: no report shows them."""
    for variant, key in keys.items():
        folder = results / variant
        if folder.is_dir() and read_result(folder / "evaluation.json").get("artifact_key") != key:
            shutil.rmtree(folder)
        for path in folder.glob("probes/*.json"):
            if path.stem not in probes:
                path.unlink()
