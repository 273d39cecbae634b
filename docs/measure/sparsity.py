"""What single weights set to zero cost before any retraining: the methods of prune_weights on one teacher.

    python docs/measure/sparsity.py runs/quickstart

Prints accuracy on the test rows, the share of zeros in the layers, and seconds of CPU, for each method.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from transformers.utils import logging

from assay.core.artifact import Artifact, open_finished
from assay.core.data.prepare import JobData, Split
from assay.core.manifest import Manifest
from assay.core.model.predict import open_predictor
from assay.run.saved_data import read_job_data
from assay.run.sensitivity import find_weights
from compress.step import Context
from compress.steps.prune_weights import PruneWeights

WAYS: dict[str, dict[str, Any]] = {
    f"{method} {name}": {"method": method} | settings
    for name, settings in (("50 %", {"fraction": 0.5}), ("2:4", {"pattern": "2:4"}))
    for method in ("random", "magnitude", "wanda", "sparsegpt")
}


def main() -> None:
    """One line a method, the teacher first."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run folder whose teacher is finished")
    parser.add_argument("--rows", type=int, default=128, help="training rows that wanda and sparsegpt look at")
    asked = parser.parse_args()
    logging.set_verbosity_error()
    record = json.loads((asked.run / "run.json").read_text())
    _, teacher = find_weights(asked.run, record, "teacher")
    data = read_job_data(asked.run)
    test, length = data.test, data.max_length
    print(f"teacher: {accuracy(teacher, test, length):.3f} on {len(test)} rows", flush=True)
    for name, settings in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            pruned, facts = prune(teacher, Path(folder), settings | {"rows": asked.rows}, data, record["seed"])
            used = time.process_time() - started
            share = facts["sparsity"]["fraction"]
            right = accuracy(pruned, test, length)
            print(f"{name}: {right:.3f}, {100 * share:.1f} % zeros in the layers, {used:.0f} s of CPU", flush=True)


def prune(
    teacher: Artifact, out: Path, settings: dict[str, Any], data: JobData, seed: int
) -> tuple[Artifact, dict[str, Any]]:
    """The pruned model and the step's facts."""
    step = PruneWeights(**settings)
    facts = step.apply(teacher, out, Context(seed, data, out, lineage=(teacher,)))
    same = {"format": "torch", "task": data.task, "family": teacher.family, "seed": seed, "edits": teacher.edits}
    Manifest("", "prune_weights", settings, None, facts=facts, **same).write(out)
    return open_finished(out), facts


def accuracy(model: Artifact, rows: Split, length: int) -> float:
    """Share of rows that the model gets right."""
    logits = open_predictor(model, length).logits(rows.texts)
    return float((logits.argmax(axis=1) == rows.labels).mean())


if __name__ == "__main__":
    main()
