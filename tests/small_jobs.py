"""Small jobs: a CSV in which one word decides the class, and configs for a tiny model on it."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

from tiny_models import WORDS

from assay.core.config.load import load_job
from assay.run.job import Outcome, run_job

SIGNS = {"neg": "awful", "pos": "wonderful"}
TEACHER = [{"finetune": {"epochs": 2, "batch_size": 8, "learning_rate": 3e-3}}]
MEASURE = {"rounds": 2, "warmup": 0, "length": 16, "starts": 0}


def write_rows(path: Path, rows: int = 80, seed: int = 0) -> Path:
    """A CSV of short texts, half of each class: the sign of the class stands somewhere in the text."""
    draw = random.Random(seed)
    neutral = sorted(set(WORDS.split()) - set(SIGNS.values()))
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for number in range(rows):
            label = list(SIGNS)[number % 2]
            words = draw.choices(neutral, k=draw.randint(3, 9))
            words.insert(draw.randint(0, len(words)), SIGNS[label])
            table.writerow([" ".join(words), label])
    return path


def write_job(path: Path, model: Path, **sections: Any) -> Path:
    """A config (JSON is YAML as well) beside a CSV of its own; `sections` replace those of a quick default job."""
    rows = path.with_suffix(".csv")
    if not rows.exists():
        write_rows(rows)
    data = {"source": str(rows), "split": {"test": 16, "validation": 16}, "max_length": 16}
    job = {
        "seed": 3,
        "model": str(model),
        "data": data | sections.pop("data", {}),
        "teacher": TEACHER,
        "variants": {"onnx": ["export_onnx"]},
        "measure": MEASURE,
    }
    path.write_text(json.dumps(job | sections, indent=2))
    return path


def run(config: Path, out: Path, *settings: str, **options: Any) -> Outcome:
    """The whole job in this process; `settings` as for --set."""
    return run_job(load_job(config, settings), out, **options)


def read(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text())


def stamps(folder: Path) -> dict[str, int]:
    """When each file below was written last, in nanoseconds."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in files}


def figures(artifacts: Any, settings: Any, progress: Any) -> dict[str, Any]:
    """In the place of a measurement, which starts processes: the bytes alone."""
    return {name: {"size_bytes": artifact.size_bytes} for name, artifact in artifacts.items()}
