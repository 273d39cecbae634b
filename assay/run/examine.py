"""Look at every variant the same way: evaluate on the test rows, run the probes, measure. Finished findings are kept.

A result is kept as long as its key (examined model, settings, data, seed) is the same. Variants that share the torch
weights a probe looks at share its findings.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from assay.core.artifact import Artifact
from assay.core.config.job import Chain
from assay.core.data.prepare import JobData
from assay.core.errors import NotGiven
from assay.core.evaluate import compare, evaluate
from assay.core.manifest import key_of, write_atomic, write_json
from assay.core.model.predict import EVAL_BATCH, Predictor, open_predictor
from assay.run.execute import one_line
from assay.run.progress import Display
from probe.probe import Findings, Probe, ProbeContext

EVALUATION_VERSION = 1
LAYOUT = {"batch_size": EVAL_BATCH, "order": "by length", "padding": "to the longest row of the batch"}


@dataclass(frozen=True)
class Subject:
    """A variant to look at: the artifact it ships, and the torch weights behind it where the graph came from some."""

    variant: str
    artifact: Artifact
    weights: Artifact

    def examined(self, needs: Literal["logits", "states"]) -> tuple[Artifact, str]:
        """What a probe with such needs looks at, and what the report calls it."""
        if needs == "states" and self.artifact.format == "onnx":
            return self.weights, "torch weights before export"
        return self.artifact, "graph" if self.artifact.format == "onnx" else "torch weights"


class Opened:
    """Predictors by artifact, opened when first asked, answers on repeated texts remembered."""

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.predictors: dict[str, Predictor] = {}

    def __call__(self, artifact: Artifact) -> Predictor:
        if artifact.key not in self.predictors:
            self.predictors[artifact.key] = remembering(open_predictor(artifact, self.max_length))
        return self.predictors[artifact.key]

    def close_all_but(self, artifact: Artifact) -> None:
        """Free what is not needed any more."""
        self.predictors = {key: value for key, value in self.predictors.items() if key == artifact.key}


def remembering(predictor: Predictor) -> Predictor:
    """The same predictor, which answers a list of texts it has seen in the same layout without running again."""
    seen: dict[str, np.ndarray] = {}
    run = predictor.logits

    def logits(texts: Sequence[str], batch_size: int = EVAL_BATCH, pad_to: int | None = None) -> np.ndarray:
        key = key_of(list(texts), batch_size, pad_to)
        if key not in seen:
            seen[key] = run(texts, batch_size, pad_to)
        return seen[key].copy()

    predictor.logits = logits  # type: ignore[method-assign]
    return predictor


@dataclass
class Examiner:
    """`folder` is the run folder; `teacher` the full model in torch."""

    folder: Path
    data: JobData
    seed: int
    teacher: Artifact
    probes: Chain
    display: Display
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open = Opened(self.data.max_length)
        self.known = _known_findings(self.folder)

    def look_at(self, subject: Subject) -> None:
        """Everything about one variant; what is already there under the same key stays."""
        with self.display.task(f"examine {subject.variant}") as progress:
            self._evaluate(subject)
            for done, (name, probe) in enumerate(self.probes):
                progress(done, len(self.probes))
                self._probe(subject, name, probe)
        self.open.close_all_but(self.teacher)

    def _evaluate(self, subject: Subject) -> None:
        path = self.folder / "results" / subject.variant / "evaluation.json"
        key = key_of("evaluation", EVALUATION_VERSION, subject.artifact.key, self.teacher.key, self.data.fingerprint)
        if _read(path).get("key") == key:
            return
        test, task = self.data.test, self.data.task
        logits = self.open(subject.artifact).logits(test.texts)
        metrics = evaluate(logits, test, task, self.data.labels)
        if subject.artifact != self.teacher:
            metrics += compare(logits, self.open(self.teacher).logits(test.texts), test, task)
        write_atomic(path.with_name("predictions.parquet"), _predictions(logits, self.data))
        write_json(
            path,
            {
                "key": key,
                "variant": subject.variant,
                "artifact_key": subject.artifact.key,
                "layout": LAYOUT,
                "metrics": [asdict(metric) for metric in metrics],
            },
        )

    def _probe(self, subject: Subject, name: str, probe: Probe) -> None:
        path = self.folder / "results" / subject.variant / "probes" / f"{name}.json"
        examined, called = subject.examined(probe.needs)
        settings = probe.model_dump(mode="json")
        parts = ("probe", name, settings, probe.version, self.seed, examined.key, self.teacher.key)
        key = key_of(*parts, self.data.fingerprint)
        if _read(path).get("key") == key:
            return
        shared = self.known.get(key)
        findings = shared or self._find(probe, examined)
        result = findings | {
            "key": key,
            "probe": name,
            "settings": settings,
            "variant": subject.variant,
            "examined": called,
        }
        if result["failed"]:
            self.failed.append(f"{subject.variant}: probe {name}: {result['failed']}")
            result["key"] = None  # a failure is tried again by the next run
        else:
            self.known[key] = findings
        write_json(path, result)

    def _find(self, probe: Probe, examined: Artifact) -> dict[str, Any]:
        started = time.monotonic()
        failed = None
        try:
            context = ProbeContext(self.seed, self.data, self.open(self.teacher), self.display.line)
            findings = probe.run(self.open(examined), context)
        except NotGiven as reason:
            findings = Findings(skipped=one_line(reason))
        except Exception as error:
            findings, failed = Findings(), one_line(error)
        return asdict(findings) | {"failed": failed, "seconds": round(time.monotonic() - started, 2)}


def measure_all(
    folder: Path, subjects: list[Subject], settings: Any, machine: dict[str, Any], display: Display
) -> list[str]:
    """Measure all variants side by side, once for this set of artifacts on this machine. Returns what failed."""
    from assay.core.measure.side_by_side import measure

    path = folder / "measure.json"
    key = key_of("measure", {s.variant: s.artifact.key for s in subjects}, settings.model_dump(mode="json"), machine)
    found = _read(path)
    if found.get("key") != key:
        with display.task("measure") as progress:
            variants = measure({s.variant: s.artifact for s in subjects}, settings, progress)
        whole = not any(item.get("error") for item in variants.values())
        found = {
            "key": key if whole else None,
            "machine": machine,
            "settings": settings.model_dump(mode="json"),
            "variants": variants,
        }
        write_json(path, found)
    return [f"{name}: {item['error']}" for name, item in found["variants"].items() if item.get("error")]


def _known_findings(folder: Path) -> dict[str, dict[str, Any]]:
    parts = ("metrics", "details", "skipped", "failed", "seconds")
    results = [_read(path) for path in sorted(folder.glob("results/*/probes/*.json"))]
    return {result["key"]: {part: result[part] for part in parts} for result in results if result.get("key")}


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def _predictions(logits: np.ndarray, data: JobData) -> bytes:
    import io

    table = pd.DataFrame({"row": data.test.rows, "label": list(data.test.labels)})
    columns = pd.DataFrame(logits, columns=[f"logit_{index}" for index in range(logits.shape[1])])
    buffer = io.BytesIO()
    pd.concat([table, columns], axis=1).to_parquet(buffer, index=False)
    return buffer.getvalue()
