"""Measure what probes find in the models of a finished run: the figures that docs/probes.md quotes, and their CPU time.

    python docs/measure/probe_figures.py runs/quickstart --details even,last_layer,faithfulness
    python docs/measure/probe_figures.py runs/quickstart --probes attribution --variants teacher,int8,half_depth
    python docs/measure/probe_figures.py runs/quickstart --probes attention_flow --set flow_samples=0

Probes have their defaults but for what `--set` says, which goes to each of them that has such a setting. They examine
what a run would: of a variant that ends in a graph the graph, or its weights before export for what a graph does not
show. On one thread; with the teacher first, whose findings are kept, a variant's seconds are its own. Prints the
headline figures with their intervals, and those parts of the details that are named.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch

from assay.core.artifact import open_finished
from assay.core.errors import NotGiven
from assay.core.machine import describe_machine, package_versions
from assay.core.metric import Metric
from assay.core.model.generations import quiet_transformers
from assay.core.model.predict import open_predictor
from assay.core.plugins import PROBES
from assay.run.examine import Subject
from assay.run.saved_data import read_job_data
from assay.run.sensitivity import find_weights
from probe.probe import Probe, ProbeContext
from reports import units


def main() -> None:
    """Read the arguments, examine the models, print."""
    asked = arguments()
    torch.set_num_threads(1)
    record = json.loads((asked.run / "run.json").read_text())
    data, seed = read_job_data(asked.run), record["seed"]
    subjects = [subject(asked.run, record, name) for name in asked.variants.split(",")]
    _, teacher = find_weights(asked.run, record, "teacher")
    machine, versions = describe_machine(), package_versions()
    print(f"{asked.run.name}: {date.today()}, {machine['cpu']}, one thread, torch {versions['torch']}, seed {seed}")
    with quiet_transformers():
        context = ProbeContext(seed, data, open_predictor(teacher, data.max_length))
        for name in asked.probes.split(","):
            probe = with_settings(PROBES.get(name), dict(asked.set))
            for each in subjects:
                examine(name, probe, each, context, asked.details.split(","))
        context.states.close()


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder whose variants are finished")
    parser.add_argument("--probes", default="attention_norms,attention_flow,heads,attribution")
    parser.add_argument("--variants", default="teacher")
    parser.add_argument("--details", default="", help="names in the details of findings, where they have them")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE")
    return parser.parse_args()


def setting(text: str) -> tuple[str, Any]:
    """`samples=200` as a name and a value, which is JSON or else text."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def with_settings(probe: type[Probe], given: dict[str, Any]) -> Probe:
    """The probe with those of the settings that it has."""
    return probe(**{name: value for name, value in given.items() if name in probe.model_fields})


def subject(run: Path, record: dict[str, Any], variant: str) -> Subject:
    """What the variant ships, and the torch weights behind it."""
    name, weights = find_weights(run, record, variant)
    steps = next(each["steps"] for each in record["variants"] if each["variant"] == variant)
    return Subject(name, open_finished(run / steps[-1]["path"]), weights)


def examine(name: str, probe: Probe, subject: Subject, context: ProbeContext, details: list[str]) -> None:
    """Print what the probe finds and how long it takes, the teacher's own findings not counted."""
    artifact, called = subject.examined(probe.needs)
    is_teacher = artifact.key == context.teacher.artifact.key
    model = context.teacher if is_teacher else open_predictor(artifact, context.data.max_length)
    started = time.process_time()
    try:
        findings = probe.run(model, context)
    except NotGiven as reason:
        print(f"{name}, {subject.variant}: skipped, {reason}")
        return
    print(f"{name}, {subject.variant} ({called}): {time.process_time() - started:.1f} s of CPU")
    told = [f"  {name}: {json.dumps(findings.details[name])}" for name in details if name in findings.details]
    print(*map(line, findings.metrics), *told, sep="\n", flush=True)


def line(metric: Metric) -> str:
    """Name, value, interval and number of items."""
    return f"  {metric.name} {units.metric(metric)}, n {metric.n}"


if __name__ == "__main__":
    main()
