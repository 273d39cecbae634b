"""Carry out the steps of a chain: skip what is done, leave nothing half-written, tell what failed.

A step works in a folder under `scratch/`, which is renamed into the store when its manifest is written: what lies in
the store is whole, or the `error.json` of a step that failed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from assay.core.artifact import Artifact
from assay.core.data.prepare import JobData
from assay.core.errors import AssayError
from assay.core.machine import package_versions
from assay.core.manifest import Manifest, hash_folder, key_of, write_atomic
from assay.run.failure import StepFailed, first_not_finite, leave_error, one_line, raise_disk_error
from assay.run.plan import Node
from assay.run.progress import Display
from compress.step import CHECKPOINT_SECONDS, Context

Lineage = tuple[Artifact, ...]


@dataclass(frozen=True)
class Workshop:
    """What every step of a job shares. `folder` is the run folder; `changed` is called after each step.

    Chains with a common prefix share its steps: each is checked, done or failed once a job."""

    folder: Path
    data: JobData
    seed: int
    display: Display
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    changed: Callable[[], None] = lambda: None
    finished: dict[str, Artifact] = field(default_factory=dict)
    failed: dict[str, StepFailed] = field(default_factory=dict)

    def carry_out(self, chain: tuple[Node, ...], source: Artifact, teacher: Artifact | None) -> Artifact:
        """The chain's last artifact; steps that are done already are not redone. Raises StepFailed."""
        lineage = [source]
        for node in chain:
            if node.key in self.failed:
                raise self.failed[node.key]
            if node.key not in self.finished:
                self.finished[node.key] = self._artifact(node, tuple(lineage), teacher)
            lineage.append(self.finished[node.key])
        return lineage[-1]

    def _artifact(self, node: Node, lineage: Lineage, teacher: Artifact | None) -> Artifact:
        if node.done:
            self.display.skip(node.folder.name)
            shutil.rmtree(self._scratch(node), ignore_errors=True)  # a kill may fall between the two
            return node.artifact
        try:
            self._replace(node, lineage, teacher)
        except Exception as error:
            raise_disk_error(error, self.folder)
            self.failed[node.key] = StepFailed(one_line(error), leave_error(node.folder, error))
            raise self.failed[node.key] from error
        finally:
            self.changed()
        return node.artifact

    def _replace(self, node: Node, lineage: Lineage, teacher: Artifact | None) -> None:
        """Put the finished work where a damaged folder or the error of an earlier try may lie."""
        name = node.folder.name
        if node.folder.exists():
            shutil.rmtree(node.folder)
        scratch = self._scratch(node)
        scratch.mkdir(parents=True, exist_ok=True)
        with self.display.task(name) as progress, _unfinished(scratch.with_name(f"{name}.unfinished")) as out:
            self._apply(node, lineage, out, self._context(lineage, teacher, scratch, progress))
            node.folder.parent.mkdir(exist_ok=True)
            os.replace(out, node.folder)
        shutil.rmtree(scratch)

    def _scratch(self, node: Node) -> Path:
        return self.folder / "scratch" / node.folder.name

    def _apply(self, node: Node, lineage: Lineage, out: Path, context: Context) -> None:
        source, started = lineage[-1], time.monotonic()
        facts = node.step.apply(source, out, context)
        if broken := first_not_finite(facts):
            raise AssayError(f"{broken}: the numbers got out of hand; a lower learning_rate may help")
        Manifest(
            key=node.key,
            step=node.name,
            settings=node.step.model_dump(mode="json"),
            parent=source.key,
            format=node.step.gives,
            task=self.data.task,
            family=source.family,
            seed=self.seed,
            edits=facts.pop("edits", source.edits),
            facts=facts,
            versions=package_versions(),
            seconds=round(time.monotonic() - started, 2),
            files=hash_folder(out),
        ).write(out)

    def _context(
        self, lineage: Lineage, teacher: Artifact | None, scratch: Path, progress: Callable[[int, int], None]
    ) -> Context:
        return Context(
            seed=self.seed,
            data=self.data,
            scratch=scratch,
            teacher=teacher,
            teacher_logits=lambda: self._teacher_logits(teacher),
            lineage=lineage,
            log=self.display.line,
            progress=progress,
            checkpoint_seconds=self.checkpoint_seconds,
        )

    def _teacher_logits(self, teacher: Artifact | None) -> np.ndarray:
        """[n, labels] on the training rows, kept on disk since several students ask for them."""
        from assay.core.model.predict import open_predictor

        if teacher is None:
            raise AssayError("there is no teacher yet")
        key = key_of("train logits", teacher.key, self.data.fingerprint)
        path = self.folder / "cache" / f"teacher_logits-{key[:12]}.npy"
        if not path.is_file():
            self.display.line("teacher answers the training rows")
            _save_array(path, open_predictor(teacher, self.data.max_length).logits(self.data.train.texts))
        return np.load(path, allow_pickle=False)


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """An empty folder to work in; what is left of it at the end goes, as does what a killed process left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _save_array(path: Path, array: np.ndarray) -> None:
    import io

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_atomic(path, buffer.getvalue())
