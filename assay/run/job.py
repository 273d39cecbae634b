"""Run a job: prepare, compress, examine, report. Everything lands in one run folder; a second run redoes nothing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from assay.core.address import resolve
from assay.core.artifact import Artifact
from assay.core.config.job import Job
from assay.core.data.prepare import JobData
from assay.core.errors import InputError
from assay.core.machine import describe_machine
from assay.core.manifest import write_atomic, write_json
from assay.run.examine import Examiner, Subject, measure_all
from assay.run.execute import Workshop, one_line
from assay.run.plan import FULL, Node, Plan, make_plan
from assay.run.prepare import prepare_job
from assay.run.progress import Display
from assay.run.record import Record
from assay.run.weights import work_weights


@dataclass(frozen=True)
class Outcome:
    """`failures` hold one line for each step, probe or measurement that failed; empty means all is well."""

    report: Path
    failures: list[str]


def run_job(job: Job, out: Path, only: str | None = None, stand_in: bool = False) -> Outcome:
    """Carry out the whole job in folder `out`, or the variant `only` and what it needs.

    `stand_in` replaces the model by a two-layer random one of the same family. Raises InputError before any training
    when model or data cannot be used."""
    if only is not None and only not in job.variants:
        from assay.core.plugins import nearest

        raise InputError(f"no variant named {only!r}{nearest(only, list(job.variants))}")
    with _locked(out):
        source, data = _prepare(job, out, stand_in)
        plan = make_plan(job, source, data, out / "store")
        chains = {name: chain for name, chain in plan.chains.items() if _wanted(name, only, plan)}
        return _work(job, out, plan, chains, data, stand_in)


def _work(
    job: Job, out: Path, plan: Plan, chains: dict[str, tuple[Node, ...]], data: JobData, stand_in: bool
) -> Outcome:
    machine = describe_machine()
    record = Record.start(out, job, plan, data, machine, stand_in)
    display = Display(work_weights(chains, job, len(data.train)))
    failures: list[str] = []
    subjects = _compress(job, out, plan, chains, data, display, record, failures)
    if subjects:
        teacher = subjects[0].artifact
        examiner = Examiner(out, data, job.seed, teacher, job.probes, display)
        for subject in subjects:
            examiner.look_at(subject)
        failures += examiner.failed
        failures += measure_all(out, subjects, job.measure, machine, display)
    record.finish()
    from reports.build import build

    return Outcome(build(out), failures)


def _compress(
    job: Job,
    out: Path,
    plan: Plan,
    chains: dict[str, tuple[Node, ...]],
    data: JobData,
    display: Display,
    record: Record,
    failures: list[str],
) -> list[Subject]:
    """Make every variant. One that fails is recorded and the others go on; without a teacher nothing can."""
    workshop = Workshop(out, data, job.seed, display)
    teacher: Artifact | None = None
    subjects = []
    for name, chain in chains.items():
        try:
            artifact = workshop.carry_out(chain, plan.source, teacher)
        except Exception as error:
            failures.append(f"{name}: {one_line(error)}")
            display.line(failures[-1])
            record.update(name, one_line(error))
            if name == FULL:
                record.blame_teacher(one_line(error))
                return []
            continue
        record.update(name)
        teacher = teacher or artifact
        subjects.append(Subject(name, artifact, _last_torch(chain, plan.source)))
    return subjects


def _prepare(job: Job, out: Path, stand_in: bool) -> tuple[Artifact, JobData]:
    folder = None
    if stand_in:
        from assay.run.stand_in import make_stand_in

        folder = make_stand_in(resolve(job.model), out / "stand_in", job.seed)
    source, data = prepare_job(job, folder)
    _write_data(out / "data", data)
    return source, data


def _write_data(folder: Path, data: JobData) -> None:
    import io

    for name in ("train", "validation", "test"):
        split = getattr(data, name)
        table = pd.DataFrame({"row": split.rows, "text": split.texts, "label": list(split.labels)})
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False)
        write_atomic(folder / f"{name}.parquet", buffer.getvalue())
    about = {"fingerprint": data.fingerprint, "labels": list(data.labels), "task": data.task, "notes": data.notes}
    write_json(folder / "data.json", about)


def _wanted(name: str, only: str | None, plan: Plan) -> bool:
    return only is None or name == only or name in plan.baselines


def _last_torch(chain: tuple[Node, ...], source: Artifact) -> Artifact:
    torch_nodes = [node for node in chain if node.step.gives == "torch"]
    return torch_nodes[-1].artifact if torch_nodes else source


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """One run at a time in a folder. The lock goes with the process, also after a kill."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "run.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InputError(f"{out}: another run is at work here (process {file.read().strip()})") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
