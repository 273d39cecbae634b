"""Rough seconds of each piece of work, so that the display can tell how much is left. Only their ratios matter."""

from __future__ import annotations

from assay.core.config.job import Job
from assay.run.plan import Node

_SECONDS_PER_TRAINING_ROW = 0.022
_PROBE_SECONDS = {"linear": 12.0, "tokens": 40.0, "edges": 40.0, "structure": 40.0, "typos": 6.0, "fidelity": 3.0}


def work_weights(chains: dict[str, tuple[Node, ...]], job: Job, training_rows: int) -> dict[str, float]:
    """Name of the piece as the display shows it -> seconds."""
    steps = {node.folder.name: _step(node, training_rows) for chain in chains.values() for node in chain}
    looks = {f"examine {name}": 3.0 + sum(_PROBE_SECONDS.get(probe, 2.0) for probe, _ in job.probes) for name in chains}
    return steps | looks | {"measure": 6.0 * len(chains)}


def _step(node: Node, training_rows: int) -> float:
    epochs = getattr(node.step, "epochs", None)
    return 3.0 + epochs * training_rows * _SECONDS_PER_TRAINING_ROW if epochs else 5.0
