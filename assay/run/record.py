"""`run.json`: what the job is, and how far each variant has come. Written anew, atomically, after every change."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay.core.config.job import BASELINES, Job
from assay.core.data.prepare import JobData
from assay.core.machine import package_versions
from assay.core.manifest import ERROR, Manifest, write_json
from assay.run.plan import Node, Plan


@dataclass
class Record:
    """`content` is what the file holds beside the variants; `errors` are one line each, by variant."""

    folder: Path
    plan: Plan
    content: dict[str, Any]
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def start(
        cls, folder: Path, job: Job, plan: Plan, data: JobData, machine: dict[str, Any], stand_in: bool
    ) -> Record:
        """Write the first version, with the state of what an earlier run left."""
        content = {
            "name": job.name,
            "config": str(job.path),
            "job": job.resolved(),
            "seed": job.seed,
            "task": job.task,
            "labels": list(data.labels),
            "started": _now(),
            "finished": None,
            "tiny": stand_in,
            "machine": machine,
            "versions": package_versions(),
            "baselines": list(plan.baselines),
        }
        record = cls(folder, plan, content)
        record.write()
        return record

    def fail(self, variant: str, error: str) -> None:
        """A variant could not be made."""
        self.errors[variant] = error
        self.write()

    def blame_teacher(self, error: str) -> None:
        """No variant can start without the teacher."""
        self.errors |= {name: f"the teacher failed: {error}" for name in self.plan.chains if name not in self.errors}
        self.write()

    def finish(self) -> None:
        """The job has come to its end, whether all went well or not."""
        self.content["finished"] = _now()
        self.write()

    def write(self) -> None:
        """The state of the store as it is now."""
        variants = [self._variant(name, chain) for name, chain in self.plan.chains.items()]
        write_json(self.folder / "run.json", self.content | {"variants": variants})

    def _variant(self, name: str, chain: tuple[Node, ...]) -> dict[str, Any]:
        steps = [self._step(node) for node in chain]
        error = self.errors.get(name) or next((step["error"] for step in steps if step["error"]), None)
        done = not error and all(step["state"] == "done" for step in steps)
        return {
            "variant": name,
            "role": "baseline" if name in BASELINES else "variant",
            "format": chain[-1].step.gives if chain else "torch",
            "path": self._inside(chain[-1].folder) if chain else str(self.plan.source.path),
            "artifact_key": self.plan.artifact_key(name),
            "steps": steps,
            "state": "done" if done else "failed" if error else "waiting",
            "error": error,
        }

    def _step(self, node: Node) -> dict[str, Any]:
        manifest = Manifest.read(node.folder)
        done = manifest is not None and manifest.key == node.key
        error = None if done else _error(node.folder)
        return {
            "step": node.name,
            "settings": node.step.model_dump(mode="json"),
            "key": node.key,
            "path": self._inside(node.folder),
            "seconds": manifest.seconds if manifest and done else None,
            "facts": manifest.facts if manifest and done else {},
            "state": "done" if done else "failed" if error else "waiting",
            "error": error,
        }

    def _inside(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()


def _error(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / ERROR).read_text())["error"])
    except FileNotFoundError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
