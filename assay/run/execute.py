"""Carry out the steps of a chain: skip what is done, leave nothing half-written, write the manifest last."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay.core.artifact import Artifact
from assay.core.data.prepare import JobData
from assay.core.errors import AssayError
from assay.core.machine import package_versions
from assay.core.manifest import ERROR, Manifest, hash_folder, key_of, write_json
from assay.run.plan import Node
from assay.run.progress import Display
from compress.step import Context


@dataclass(frozen=True)
class Workshop:
    """What every step of a job shares. `folder` is the run folder."""

    folder: Path
    data: JobData
    seed: int
    display: Display

    def carry_out(self, chain: tuple[Node, ...], source: Artifact, teacher: Artifact | None) -> Artifact:
        """The chain's last artifact; steps that are done already are not redone."""
        lineage = [source]
        for node in chain:
            if node.done:
                self.display.skip(node.folder.name)
            else:
                self._apply(node, tuple(lineage), teacher)
            lineage.append(node.artifact)
        return lineage[-1]

    def _apply(self, node: Node, lineage: tuple[Artifact, ...], teacher: Artifact | None) -> None:
        source, out = lineage[-1], node.folder
        scratch = self.folder / "scratch" / out.name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        scratch.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        try:
            with self.display.task(out.name) as progress:
                context = Context(
                    seed=self.seed,
                    data=self.data,
                    scratch=scratch,
                    teacher=teacher,
                    teacher_logits=lambda: self._teacher_logits(teacher),
                    lineage=lineage,
                    log=self.display.line,
                    progress=progress,
                )
                facts = node.step.apply(source, out, context)
        except Exception as error:
            _leave_error(out, error)
            raise
        edits = facts.pop("edits", source.edits)
        Manifest(
            key=node.key,
            step=node.name,
            settings=node.step.model_dump(mode="json"),
            parent=source.key,
            format=node.step.gives,
            task=self.data.task,
            family=source.family,
            seed=self.seed,
            edits=edits,
            facts=facts,
            versions=package_versions(),
            seconds=round(time.monotonic() - started, 2),
            files=hash_folder(out),
        ).write(out)
        shutil.rmtree(scratch)

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


def one_line(error: BaseException) -> str:
    """The message without line breaks; the type's name where the message alone says too little."""
    text = " ".join(str(error).split())
    return text if isinstance(error, AssayError) and text else f"{type(error).__name__}: {text}"


def _leave_error(out: Path, error: Exception) -> None:
    """Drop the unfinished work and say why."""
    import traceback

    shutil.rmtree(out, ignore_errors=True)
    write_json(out / ERROR, {"error": one_line(error), "traceback": traceback.format_exception(error)})


def _save_array(path: Path, array: np.ndarray) -> None:
    import io

    from assay.core.manifest import write_atomic

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_atomic(path, buffer.getvalue())
