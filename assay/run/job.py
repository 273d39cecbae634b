"""Run a job: prepare, compress, examine, report. Everything lands in one run folder; a second run redoes nothing."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.address import resolve
from assay.core.artifact import Artifact
from assay.core.config.job import Job
from assay.core.data.prepare import JobData
from assay.core.errors import InputError
from assay.core.machine import describe_machine
from assay.core.plugins import nearest
from assay.run.examine import Examiner, Subject
from assay.run.execute import Workshop
from assay.run.failure import StepFailed
from assay.run.lock import locked
from assay.run.measured import measure_all
from assay.run.plan import FULL, Node, Plan, make_plan
from assay.run.prepare import prepare_job
from assay.run.progress import Display, log_lines
from assay.run.record import Record
from assay.run.results import drop_outdated, known_findings
from assay.run.saved_data import save_data
from assay.run.weights import work_weights
from compress.step import CHECKPOINT_SECONDS


@dataclass(frozen=True)
class Outcome:
    """`failures` hold one line for each step, probe or measurement that failed; empty means all is well."""

    report: Path
    failures: list[str]


def run_job(
    job: Job,
    out: Path,
    only: str | None = None,
    stand_in: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Outcome:
    """Carry out the whole job in folder `out`, or the variant `only` and what it needs.

    `stand_in` replaces the model by a two-layer random one of the same family. Training saves a checkpoint every
    `checkpoint_seconds`. Raises InputError before any training when model or data cannot be used, DiskError where
    nothing more can be written."""
    if only is not None and only not in job.variants:
        raise InputError(f"no variant named {only!r}{nearest(only, list(job.variants))}")
    ready = None if stand_in else prepare_job(job)  # before anything is made: bad input leaves no folder behind
    with locked(out):
        source, data = ready or _prepare_stand_in(job, out)
        save_data(out / "data", data)
        plan = make_plan(job, source, data, out / "store")
        machine = describe_machine()
        record = Record.start(out, job, plan, data, machine, stand_in)
        display = Display(work_weights(_wanted(plan, only), job, len(data.train)))
        with log_lines(display):
            return _Run(job, out, plan, data, machine, record, display).work(only, checkpoint_seconds)


def _prepare_stand_in(job: Job, out: Path) -> tuple[Artifact, JobData]:
    from assay.run.stand_in import make_stand_in

    return prepare_job(job, make_stand_in(resolve(job.model), out / "stand_in", job.seed, job.task))


def _wanted(plan: Plan, only: str | None) -> dict[str, tuple[Node, ...]]:
    """Chains to carry out: all of them, or the baselines and one variant."""
    return {name: chain for name, chain in plan.chains.items() if only in (None, name) or name in plan.baselines}


@dataclass
class _Run:
    """One job at work in its folder."""

    job: Job
    folder: Path
    plan: Plan
    data: JobData
    machine: dict[str, Any]
    record: Record
    display: Display
    failures: list[str] = field(default_factory=list)

    def work(self, only: str | None, checkpoint_seconds: float) -> Outcome:
        """Make the variants, look at them, report."""
        from reports.build import build

        results = self.folder / "results"
        known = known_findings(results)
        keys = {name: self.plan.artifact_key(name) for name in self.plan.chains}
        wanted = _wanted(self.plan, only)
        subjects = self._compress(wanted, checkpoint_seconds)
        drop_outdated(results, keys, [name for name, _ in self.job.probes])
        if subjects:
            self._examine(subjects, known)
            self._measure(subjects, [name for name in self.plan.chains if name not in wanted])
        self.record.finish()
        return Outcome(build(self.folder), self.failures)

    def _compress(self, chains: dict[str, tuple[Node, ...]], checkpoint_seconds: float) -> list[Subject]:
        """Make every variant. One that fails is recorded and the others go on; without a teacher nothing can."""
        workshop = Workshop(self.folder, self.data, self.job.seed, self.display, checkpoint_seconds, self.record.write)
        subjects: list[Subject] = []
        for name, chain in chains.items():
            teacher = subjects[0].artifact if subjects else None
            try:
                artifact = workshop.carry_out(chain, self.plan.source, teacher)
            except StepFailed as failed:
                self._note(name, failed, chain)
                if name == FULL:
                    self.record.blame_teacher(str(failed))
                    return []
                continue
            subjects.append(Subject(name, artifact, _last_torch(chain, self.plan.source), _shows_states(chain)))
        return subjects

    def _note(self, name: str, failed: StepFailed, chain: tuple[Node, ...]) -> None:
        self.failures.append(f"{name}: {failed} (traceback: {failed.told_in})")
        self.display.line(self.failures[-1])
        self.display.forget([*(node.folder.name for node in chain), f"examine {name}"])
        self.record.fail(name, str(failed))

    def _examine(self, subjects: list[Subject], known: dict[str, dict[str, Any]]) -> None:
        teacher = subjects[0].artifact
        examiner = Examiner(self.folder, self.data, self.job.seed, teacher, self.job.probes, self.display, known)
        with closing(examiner):
            for subject in subjects:
                examiner.look_at(subject)
        self.failures += examiner.failed

    def _measure(self, subjects: list[Subject], others: list[str]) -> None:
        """Side by side with the variants that were not asked for now but are done, since one file holds all figures."""
        made = {subject.variant: subject.artifact for subject in subjects}
        made |= {name: self.plan.chains[name][-1].artifact for name in others if self._is_made(name)}
        artifacts = {name: made[name] for name in self.plan.baselines_first if name in made}
        self.failures += measure_all(self.folder, artifacts, self.job.measure, self.machine, self.display)

    def _is_made(self, name: str) -> bool:
        return all(node.done for node in self.plan.chains[name])


def _shows_states(chain: tuple[Node, ...]) -> bool:
    return any(node.step.shows_states for node in chain)


def _last_torch(chain: tuple[Node, ...], source: Artifact) -> Artifact:
    torch_nodes = [node for node in chain if node.step.gives == "torch"]
    return torch_nodes[-1].artifact if torch_nodes else source
