"""What a job will do: every step with its content key and folder, computed before any weight is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.core.artifact import Artifact, open_finished
from assay.core.config.job import BASELINES, Chain, Job
from assay.core.data.prepare import JobData
from assay.core.manifest import hash_file, is_done, key_of
from assay.core.plugins import STEPS
from compress.step import Step

FULL, FULL_ONNX = BASELINES


@dataclass(frozen=True)
class Node:
    """One step of a chain. Chains that share a prefix hold equal nodes."""

    name: str
    step: Step
    key: str
    folder: Path

    @property
    def done(self) -> bool:
        """Finished and undamaged."""
        return is_done(self.folder, self.key)

    @property
    def artifact(self) -> Artifact:
        """The finished result."""
        return open_finished(self.folder)


@dataclass(frozen=True)
class Plan:
    """`chains` maps teacher, teacher_onnx (where no variant is that already) and every variant to its whole chain of
    nodes from the source on. `baselines` are the two unpruned fp32 models that ratios are given against."""

    source: Artifact
    chains: dict[str, tuple[Node, ...]]
    baselines: tuple[str, ...]

    def artifact_key(self, name: str) -> str:
        """Key of what a variant will be when its last step is done."""
        return self.chains[name][-1].key if self.chains[name] else self.source.key

    @property
    def baselines_first(self) -> list[str]:
        """All names, the two baselines before the others, which keep the order of the config."""
        return [*self.baselines, *(name for name in self.chains if name not in self.baselines)]


def make_plan(job: Job, source: Artifact, data: JobData, store: Path) -> Plan:
    """Keys and folders of all chains."""
    full = _chain(job.teacher, source.key, "", job.seed, data.fingerprint, store)
    full_key = full[-1].key if full else source.key
    export = (("export_onnx", STEPS.get("export_onnx")()),)
    asked = {FULL_ONNX: export, **job.variants}
    chains = {
        name: full + _chain(chain, full_key, full_key, job.seed, data.fingerprint, store)
        for name, chain in asked.items()
    }
    twin = next((name for name in job.variants if chains[name] == chains[FULL_ONNX]), FULL_ONNX)
    if twin != FULL_ONNX:
        del chains[FULL_ONNX]
    return Plan(source, {FULL: full, **chains}, (FULL, twin))


def _chain(steps: Chain, parent: str, full_key: str, seed: int, fingerprint: str, store: Path) -> tuple[Node, ...]:
    nodes = []
    for name, step in steps:
        teacher = full_key if step.uses_teacher else None
        read = [hash_file(path) for path in step.inputs()]
        parent = key_of(parent, name, step.model_dump(mode="json"), step.version, seed, fingerprint, teacher, *read)
        nodes.append(Node(name, step, parent, store / f"{name}-{parent[:12]}"))
    return tuple(nodes)
