"""Timing several models fairly in one process: they take turns call by call, in an order shuffled every round.

What slows the machine for a while (a neighbour, heat) then slows all of them alike, and none always runs after the same
other one. Wall time is what a user waits; CPU time of the same calls moves less on a shared machine.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random

import numpy as np

from assay.core.stats import bootstrap_interval

SEED = 0


@dataclass
class Times:
    """Seconds of each counted call, in the order of rounds: by the clock, and of the CPU over all threads."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def __add__(self, other: Times) -> Times:
        """The calls of both."""
        return Times(self.wall + other.wall, self.cpu + other.cpu)


def turns(names: Sequence[str], rounds: int, seed: int = SEED) -> Iterator[list[str]]:
    """One list a round; each holds every name once, in a new order."""
    shuffle = Random(seed)
    for _ in range(rounds):
        yield shuffle.sample(names, len(names))


def take_turns(
    calls: Mapping[str, Callable[[], object]], rounds: int, warmup: int, tick: Callable[[], None]
) -> dict[str, Times]:
    """Time every call once a round, after `warmup` rounds that do not count. `tick` is called after each round."""
    times = {name: Times() for name in calls}
    with _without_garbage_collection():
        for number, order in enumerate(turns(list(calls), warmup + rounds)):
            for name in order:
                wall, cpu = _seconds(calls[name])
                if number >= warmup:
                    times[name].wall.append(wall)
                    times[name].cpu.append(cpu)
            tick()
    return times


def latency(times: Times) -> dict[str, float | None]:
    """Milliseconds a call: median with a 95 % interval, 95th percentile, and median CPU time.

    The interval is None for a single round."""
    wall, cpu = np.array(times.wall) * 1e3, np.array(times.cpu) * 1e3
    low, high = bootstrap_interval(partial(np.median, axis=-1), wall, vectorized=True)
    return {
        "latency_ms_p50": float(np.median(wall)),
        "latency_ms_p50_low": low,
        "latency_ms_p50_high": high,
        "latency_ms_p95": float(np.percentile(wall, 95)),
        "cpu_ms_p50": float(np.median(cpu)),
    }


def throughput(times: Times, batch_size: int) -> dict[str, float]:
    """Rows a second at the median call."""
    return {"throughput_per_s": batch_size / float(np.median(times.wall))}


def _seconds(call: Callable[[], object]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A collection in the middle of a call would be charged to whoever's turn it is."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
