"""Measure what it costs to read hidden states of all layers and keep them, against logits alone.

    python docs/measure/state_reading.py runs/quickstart

The teacher of a finished run reads the same rows in the same batches in three ways, which take turns on one thread:
logits alone; the states of all layers, as a probe streams them; the states, written to files that later probes read.
Prints CPU seconds as the median of the rounds with their range, and the ratio to logits alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import torch

from assay.core.machine import describe_machine, package_versions
from assay.core.model.generations import quiet_transformers
from assay.core.model.predict import TorchPredictor
from assay.run.saved_data import read_split
from assay.run.sensitivity import find_weights
from probe.shared_states import BATCH, StateCache


def main() -> None:
    """Read the arguments, measure, print."""
    asked = arguments()
    torch.set_num_threads(1)
    record = json.loads((asked.run / "run.json").read_text())
    _, teacher = find_weights(asked.run, record, "teacher")
    model = TorchPredictor(teacher, record["job"]["data"]["max_length"])
    texts = read_split(asked.run / "data", "train").texts[: asked.rows]
    machine, torch_version = describe_machine(), package_versions()["torch"]
    print(f"{date.today()}, {machine['cpu']}, one thread, torch {torch_version}, {asked.rounds} rounds")
    print(f"{len(texts)} rows in batches of {BATCH}, states of {len(model.layers) + 1} layers")
    with quiet_transformers():
        seconds = take_turns(ways(model, texts), asked.rounds)
    for name, taken in seconds.items():
        ratio = np.median(taken / seconds["logits alone"])
        low, middle, high = np.quantile(taken, (0, 0.5, 1))
        print(f"{name}: {middle:.2f} s of CPU ({low:.2f} to {high:.2f}), {ratio:.3f} times the first")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run folder whose teacher is finished")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def ways(model: TorchPredictor, texts: list[str]) -> dict[str, Callable[[], None]]:
    """What takes turns, by name."""

    def logits() -> None:
        model.logits(texts, BATCH)

    def streamed() -> None:
        for _ in model.states(texts, BATCH):
            pass

    def kept() -> None:
        cache = StateCache()
        for _ in cache.of(model).states(texts):
            pass
        cache.close()

    return {"logits alone": logits, "states": streamed, "states, kept on disk": kept}


def take_turns(ways: dict[str, Callable[[], None]], rounds: int) -> dict[str, np.ndarray]:
    """CPU seconds [rounds] of each; a first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            started = time.process_time()
            way()
            seconds[name].append(time.process_time() - started)
    return {name: np.array(taken[1:]) for name, taken in seconds.items()}


if __name__ == "__main__":
    main()
