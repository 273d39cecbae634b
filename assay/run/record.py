"""`run.json`: what the job is, and how far each variant has come. Written anew, atomically, after every change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay.core.config.job import Job
from assay.core.data.prepare import JobData
from assay.core.machine import package_versions
from assay.core.manifest import ERROR, Manifest, write_json
from assay.run.plan import Node, Plan


@dataclass
class Record:
    """`content` is what the file holds."""

    folder: Path
    plan: Plan
    content: dict[str, Any]
    errors: dict[str, str]

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
        record = cls(folder, plan, content, {})
        record._write()
        return record

    def update(self, variant: str, error: str | None = None) -> None:
        """A variant has been made, or failed with `error`."""
        if error:
            self.errors[variant] = error
        self._write()

    def blame_teacher(self, error: str) -> None:
        """No variant can start without the teacher."""
        self.errors |= {name: f"the teacher failed: {error}" for name in self.plan.chains if name not in self.errors}
        self._write()

    def finish(self) -> None:
        """The job has ended."""
        self.content["finished"] = _now()
        self._write()

    def _write(self) -> None:
        variants = [self._variant(name, chain) for name, chain in self.plan.chains.items()]
        write_json(self.folder / "run.json", self.content | {"variants": variants})

    def _variant(self, name: str, chain: tuple[Node, ...]) -> dict[str, Any]:
        steps = [self._step(node) for node in chain]
        error = self.errors.get(name)
        done = not error and all(step["state"] == "done" for step in steps)
        last = chain[-1] if chain else None
        return {
            "variant": name,
            "role": "baseline" if name in ("teacher", "teacher_onnx") else "variant",
            "format": last.step.gives if last else "torch",
            "path": self._inside(last.folder) if last else str(self.plan.source.path),
            "artifact_key": last.key if last else self.plan.source.key,
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
