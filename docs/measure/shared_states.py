"""Measure what it saves that the probes of a run share hidden states.

    python docs/measure/shared_states.py --run runs/quickstart

Runs the probes `linear`, `mdl`, `erasure` (without amnesic probing) and `similarity` on the teacher and on one variant
of a finished run, once with states of its own for each probe and once with shared ones. Prints how many texts were
read and the CPU seconds, machine and date.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from assay.core.artifact import open_finished
from assay.core.machine import describe_machine
from assay.core.model.predict import StateBatch, TorchPredictor
from assay.core.plugins import PROBES
from assay.run.saved_data import read_job_data
from probe.probe import ProbeContext


class Counted(TorchPredictor):
    """Counts the texts whose states it is asked for."""

    read = 0

    def states(self, texts: Sequence[str], batch_size: int = 16, attentions: bool = False) -> Iterator[StateBatch]:
        """As a TorchPredictor does."""
        self.read += len(texts)
        yield from super().states(texts, batch_size, attentions)


def probes(samples: int) -> list[Any]:
    """With the same number of rows each."""
    both = {"samples": samples, "test_samples": samples // 2}
    tasks = {"tasks": ["label", "length"]}
    return [
        PROBES.get("linear")(**tasks, **both),
        PROBES.get("mdl")(**tasks, samples=samples),
        PROBES.get("erasure")(**tasks, **both, amnesic="none"),
        PROBES.get("similarity")(samples=samples),
    ]


def look(models: Sequence[Counted], given: list[Any], context: Callable[[], ProbeContext]) -> dict[str, Any]:
    """Texts read by all models and CPU seconds, one probe after the other, `context()` for each."""
    started, before = time.process_time(), sum(model.read for model in models)
    seconds: Counter[str] = Counter()
    for model in models:
        for probe in given:
            start = time.process_time()
            probe.run(model, context())
            seconds[type(probe).__name__] += time.process_time() - start  # type: ignore[assignment]
    read = sum(model.read for model in models) - before
    return {"texts": read, "cpu_s": time.process_time() - started, "by_probe": dict(seconds)}


def main() -> None:
    """Read the arguments, measure, print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--run", type=Path, default=Path("runs/quickstart"))
    arguments.add_argument("--variant", default="half_depth")
    arguments.add_argument("--samples", type=int, default=400)
    arguments.add_argument("--seed", type=int, default=13)
    given = arguments.parse_args()
    variants = {each["variant"]: each for each in json.loads((given.run / "run.json").read_text())["variants"]}
    paths = [[given.run / step["path"] for step in variants[name]["steps"]] for name in ("teacher", given.variant)]
    weights = [[path for path in each if (path / "model.safetensors").is_file()][-1] for each in paths]
    data, asked = read_job_data(given.run), probes(given.samples)
    models = [Counted(open_finished(folder), data.max_length) for folder in weights]

    def fresh() -> ProbeContext:
        return ProbeContext(given.seed, data, models[0])

    shared = fresh()
    print(f"{date.today()}, {describe_machine()['cpu']}, {given.samples} rows a probe, seed {given.seed}")
    for name, context in (("each its own", fresh), ("shared", lambda: shared)):
        found = look(models, asked, context)
        parts = ", ".join(f"{probe} {seconds:.1f}" for probe, seconds in found["by_probe"].items())
        print(f"{name}: {found['texts']} texts read, {found['cpu_s']:.1f} s of CPU time ({parts})")
    print(f"kept on disk: {sum(shared.states.of(model).files.size_bytes for model in models) / 1e6:.0f} MB")
    shared.states.close()


if __name__ == "__main__":
    main()
