"""Size, speed and memory of every variant, on equal terms.

All variants answer the same token ids, or images, on the same number of threads and take turns in one process
(`turns.py`). Torch runs with its fused attention ("sdpa") and without gradients: the faster way, so the fair baseline.
Idle threads of onnxruntime do not spin. Cold start and peak memory come from fresh processes (`cold_start.py`).
Variants that do not fit in memory together are timed in groups, each beside the baselines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import psutil

from assay.core.artifact import GRAPH, Artifact
from assay.core.errors import AssayError
from assay.core.measure import cold_start
from assay.core.measure.settings import MeasureSettings
from assay.core.measure.timed_batch import timed_batch
from assay.core.measure.turns import Times, latency, take_turns, throughput, turns
from assay.core.measure.weights_count import count_graph, count_module
from assay.core.model.corrupt import first_line
from assay.core.model.graph import integer_operators
from assay.core.model.inputs import longest_input
from assay.core.model.predict import run_graph

BASELINES = 2  # the first two variants are in every group
MEMORY_SHARE = 0.5  # of the free memory may be model files: loaded, a model takes up to twice its file
THROUGHPUT_SHARE = 0.25  # of the rounds: these calls take several times as long

Inputs = dict[str, np.ndarray]
Results = dict[str, dict[str, Any]]


def measure(
    artifacts: Mapping[str, Artifact],
    settings: MeasureSettings,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Results:
    """Variant -> its figures in `measure.json`, the baselines being the first two of `artifacts`.

    `latency_ms_p50` comes with a 95 % interval (`..._low`, `..._high`; None for one round), and `length` says how many
    tokens were timed: what was asked for, or what the shortest variant has positions for, the same for all. A variant
    that cannot be loaded or run has `size_bytes` and a one-line `error`, and the others go on."""
    results: Results = {name: {"size_bytes": artifact.size_bytes} for name, artifact in artifacts.items()}
    limits: dict[str, int] = {}
    for name, artifact in artifacts.items():
        with _noted(results[name]):
            limits[name] = longest_input(artifact.config)
    if limits:
        known = {name: artifacts[name] for name in limits}
        _Measurement(known, settings, min(settings.length, *limits.values()), results).run(progress)
    return results


@dataclass(frozen=True)
class _Measurement:
    """What all the timing shares: `length` fits every artifact, and `results` is filled as figures come in."""

    artifacts: Mapping[str, Artifact]
    settings: MeasureSettings
    length: int
    results: Results

    def run(self, progress: Callable[[int, int], None]) -> None:
        sizes = {name: artifact.size_bytes for name, artifact in self.artifacts.items()}
        groups = memory_groups(sizes, int(psutil.virtual_memory().available * MEMORY_SHARE))
        starts = self.settings.starts
        tick = _ticker(progress, len(groups) * sum(map(sum, self._rounds())) + starts * len(sizes))
        self._time(groups, tick)
        self._start(starts, tick)

    def _rounds(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(counted, not counted) for latency, and for throughput."""
        rounds, warmup = self.settings.rounds, self.settings.warmup
        return (rounds, warmup), (math.ceil(rounds * THROUGHPUT_SHARE), min(1, warmup))

    def _time(self, groups: Sequence[Sequence[str]], tick: Callable[[], None]) -> None:
        """Latency and throughput; the calls of a variant that is in several groups are pooled."""
        short: dict[str, Times] = {}
        long: dict[str, Times] = {}
        with _torch_threads(self.settings.threads):
            for group in groups:
                for pool, timed in zip((short, long), self._time_group(group, tick), strict=True):
                    pool |= {name: pool.get(name, Times()) + times for name, times in timed.items()}
        for name, times in short.items():
            figures = latency(times) | throughput(long[name], self.settings.throughput_batch_size)
            self.results[name] |= figures | {"length": self.length}

    def _time_group(self, group: Sequence[str], tick: Callable[[], None]) -> list[dict[str, Times]]:
        """Times of the latency calls and of the throughput calls. The models leave memory at the end."""
        batches = [self._batch(rows) for rows in (self.settings.batch_size, self.settings.throughput_batch_size)]
        answers = self._open(group, batches)
        return [
            take_turns({name: partial(answer, batch) for name, answer in answers.items()}, *rounds, tick)
            for batch, rounds in zip(batches, self._rounds(), strict=True)
        ]

    def _batch(self, rows: int) -> Inputs:
        return timed_batch(self.artifacts.values(), rows, self.length)

    def _open(self, group: Sequence[str], batches: Sequence[Inputs]) -> dict[str, Callable[[Inputs], object]]:
        """The models of a group that load and answer every batch; figures that need no clock go into the results."""
        answers = {}
        for name in group:
            with _noted(self.results[name]):
                answer, figures = _load(self.artifacts[name], self.settings.threads)
                for batch in batches:
                    answer(batch)
                answers[name] = answer
                self.results[name] |= figures
        return answers

    def _start(self, starts: int, tick: Callable[[], None]) -> None:
        """Cold starts, in turns as well. After its first failure a variant is not started again."""
        seen: dict[str, list[cold_start.Start]] = {name: [] for name in self.artifacts}
        for name in chain.from_iterable(turns(list(seen), starts)):
            if "error" not in self.results[name]:
                with _noted(self.results[name]):
                    seen[name].append(self._start_once(self.artifacts[name]))
            tick()
        for name, done in seen.items():
            if done and len(done) == starts:
                self.results[name] |= cold_start.summary(done)

    def _start_once(self, artifact: Artifact) -> cold_start.Start:
        return cold_start.start(artifact, self.settings.batch_size, self.length, self.settings.threads)


def memory_groups(sizes: Mapping[str, int], budget: int) -> list[list[str]]:
    """Names in groups whose bytes add up to at most `budget`, the first two names in each of them.

    One group where all fit. A group has at least one name beside the first two, even where that is over the budget."""
    names = list(sizes)
    if sum(sizes.values()) <= budget or len(names) <= BASELINES + 1:
        return [names]
    baselines = names[:BASELINES]
    groups = [list(baselines)]
    for name in names[BASELINES:]:
        full = sum(sizes[each] for each in groups[-1]) + sizes[name] > budget
        if full and len(groups[-1]) > BASELINES:
            groups.append(list(baselines))
        groups[-1].append(name)
    return groups


def _load(artifact: Artifact, threads: int) -> tuple[Callable[[Inputs], object], dict[str, int]]:
    """What answers a batch, and the counts of weights and of integer products."""
    from assay.core.model.load import load_module, load_session

    if artifact.format == "onnx":
        session = load_session(artifact, threads)
        graph = artifact.path / GRAPH
        counts = count_graph(graph)._asdict() | {"integer_ops": integer_operators(graph)}
        return partial(run_graph, session), counts
    module = load_module(artifact, attn_implementation="sdpa")
    return partial(_run_module, module), count_module(module)._asdict() | {"integer_ops": 0}


def _run_module(module: Any, inputs: Inputs) -> object:
    import torch

    with torch.inference_mode():
        return module(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _noted(figures: dict[str, Any]) -> Iterator[None]:
    """Whatever a broken model makes its runtime raise becomes the variant's `error`."""
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, AssayError) else f"{type(error).__name__}: "
        figures["error"] = kind + first_line(error)


def _ticker(progress: Callable[[int, int], None], total: int) -> Callable[[], None]:
    done = iter(range(1, total + 1))
    return lambda: progress(next(done), total)
