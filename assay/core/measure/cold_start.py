"""What a fresh process needs for its first answer: seconds from its start, imports and loading included, and memory.

Files are in the system's cache, as on a machine that has started the model before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from assay.core.artifact import Artifact
from assay.core.errors import AssayError

TIMEOUT_S = 600


@dataclass(frozen=True)
class Start:
    """One start: `imported` names the heavy libraries the process loaded, `answer` holds the logits of its first text
    (`child.TEXT`)."""

    cold_start_s: float
    peak_rss_mib: float
    imported: tuple[str, ...]
    answer: tuple[float, ...]


def start(artifact: Artifact, batch_size: int, length: int, threads: int) -> Start:
    """Start a process that loads the artifact, answers one text, then one batch. AssayError with its last words where
    it fails."""
    options = {"--task": artifact.task, "--batch-size": batch_size, "--length": length, "--threads": threads}
    command = [sys.executable, "-m", "assay.core.measure.child", str(artifact.path.resolve()), artifact.format]
    command += [str(word) for option in options.items() for word in option]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    started_at = time.time()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise AssayError(f"{artifact.path}: a fresh process ended with {done.returncode}: {last}")
    said = json.loads(done.stdout.splitlines()[-1])
    seconds = said["answered_at"] - started_at
    return Start(seconds, said["peak_rss_mib"], tuple(said["imported"]), tuple(said["answer"]))


def summary(starts: Sequence[Start]) -> dict[str, float]:
    """Medians over several starts."""
    return {
        "peak_rss_mib": median(each.peak_rss_mib for each in starts),
        "cold_start_s": median(each.cold_start_s for each in starts),
    }
