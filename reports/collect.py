"""Reads a run folder into frozen plain data.

An unfinished or partly failed run reads as well as a whole one: variants that wait or failed keep their reason, and
what is not measured yet is None or empty. Only a folder that is no run, or a damaged file, is an error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from assay.core.errors import InputError
from assay.core.metric import Metric

Record = TypeVar("Record")
Json = dict[str, Any]


@dataclass(frozen=True)
class StepRecord:
    """One step of a variant's chain; `error` is the reason in one line where `state` is "failed" or "waiting"."""

    step: str
    settings: Json = field(default_factory=dict)
    key: str | None = None
    path: str | None = None
    seconds: float | None = None
    facts: Json = field(default_factory=dict)
    state: str = "done"
    error: str | None = None


@dataclass(frozen=True)
class ProbeResult:
    """What one probe found on one variant; `skipped` and `failed` are reasons in words. `silver`: the parser whose
    trees or tags stood for true ones."""

    probe: str
    variant: str
    settings: Json = field(default_factory=dict)
    examined: str = "graph"
    silver: str | None = None
    metrics: tuple[Metric, ...] = ()
    details: Json = field(default_factory=dict)
    skipped: str | None = None
    failed: str | None = None
    seconds: float | None = None

    @property
    def reason(self) -> str | None:
        """Why there are no findings, or None where there are."""
        return self.failed or self.skipped


@dataclass(frozen=True)
class Variant:
    """One model of the run. `metrics` by name and `measurement` are empty until evaluated and measured.

    `paired` is False for a language model that was asked for other tokens than its teacher, `skipped` says why an
    evaluation has no figures."""

    name: str
    role: str
    format: str
    path: str | None
    steps: tuple[StepRecord, ...]
    state: str
    error: str | None
    folder: Path
    layout: Json = field(default_factory=dict)
    metrics: dict[str, Metric] = field(default_factory=dict)
    measurement: Json = field(default_factory=dict)
    probes: tuple[ProbeResult, ...] = ()
    stale: bool = False
    paired: bool | None = None
    skipped: str | None = None

    @cached_property
    def predictions(self) -> pd.DataFrame | None:
        """Columns row, label, logit_0 .. logit_k in test order; None where not evaluated."""
        return None if self.stale else read_table(self.folder / "predictions.parquet")


@dataclass(frozen=True)
class Run:
    """A whole run; `data` is data.json, `measured_with` and `measured_on` the settings and machine of measure.json."""

    folder: Path
    name: str
    config: str
    job: Json
    seed: int | None
    task: str
    labels: tuple[str, ...]
    started: str | None
    finished: str | None
    tiny: bool
    machine: Json
    versions: dict[str, str]
    baselines: tuple[str, ...]
    variants: tuple[Variant, ...]
    data: Json
    measured_with: Json
    measured_on: Json

    @property
    def has_images(self) -> bool:
        """Whether its rows are images."""
        return self.task == "image-classification"

    @property
    def rows_called(self) -> str:
        """What its rows are, in words."""
        return "images" if self.has_images else "texts"

    def variant(self, name: str) -> Variant | None:
        """The variant of that name."""
        return next((variant for variant in self.variants if variant.name == name), None)

    @property
    def teacher(self) -> Variant | None:
        """The fp32 torch model that all variants start from."""
        named = [self.variant(name) for name in self.baselines]
        return next((variant for variant in named if variant and variant.format == "torch"), None)

    @property
    def teacher_onnx(self) -> Variant | None:
        """The teacher in ONNX Runtime: the baseline of that format, or the variant that is nothing but its export."""
        own = [v for v in self.variants if v.format == "onnx" and (v.name in self.baselines or self._only_exported(v))]
        return min(own, key=lambda variant: variant.name not in self.baselines, default=None)

    def added_steps(self, variant: Variant) -> tuple[StepRecord, ...]:
        """The steps of a variant without those it shares with the teacher it starts from."""
        shared = self.teacher.steps if self.teacher and variant.name != self.teacher.name else ()
        same = len(variant.steps) >= len(shared) and all(
            (one.step, one.key) == (two.step, two.key) for one, two in zip(variant.steps, shared, strict=False)
        )
        return variant.steps[len(shared) :] if same else variant.steps

    def _only_exported(self, variant: Variant) -> bool:
        return [step.step for step in self.added_steps(variant)] == ["export_onnx"]

    @cached_property
    def test(self) -> pd.DataFrame | None:
        """The test rows: columns row, text, label; None where not written yet."""
        return read_table(self.folder / "data" / "test.parquet")


def collect(folder: Path) -> Run:
    """Read the run below `folder`; InputError in one line, with the path, where that is not possible."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run folder; `assay run CONFIG` makes one below runs/")
    path = folder / "run.json"
    if not path.is_file():
        raise InputError(f"{folder}: no run.json in it; is it a run folder?")
    try:
        return _run(folder, read_json(path))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not the record of a run ({type(error).__name__}: {error})") from None


def read_json(path: Path, missing: Json | None = None) -> Json:
    """A JSON object. `missing` is returned where there is no file; a damaged file is an InputError."""
    if missing is not None and not path.is_file():
        return missing
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error}); run the job again to write it anew") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds a JSON {type(value).__name__} where an object is expected")
    return value


def read_table(path: Path) -> pd.DataFrame | None:
    """A parquet table; None where there is no file, InputError where it is damaged."""
    if not path.is_file():
        return None
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read as parquet ({reason}); run the job again to write it anew") from None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _record(kind: type[Record], data: Json, **given: Any) -> Record:
    """Fill a dataclass from JSON; fields that it does not know are left for newer versions."""
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: data[name] for name in names if data.get(name) is not None} | given)


def _run(folder: Path, data: Json) -> Run:
    measured = read_json(folder / "measure.json", missing={})
    figures = measured.get("variants") or {}
    return Run(
        folder=folder,
        name=data["name"],
        config=data.get("config") or "",
        job=data.get("job") or {},
        seed=data.get("seed"),
        task=data["task"],
        labels=tuple(data.get("labels") or ()),
        started=data.get("started"),
        finished=data.get("finished"),
        tiny=bool(data.get("tiny")),
        machine=data.get("machine") or {},
        versions=data.get("versions") or {},
        baselines=tuple(data.get("baselines") or ()),
        variants=tuple(_variant(folder, item, figures.get(item["variant"]) or {}) for item in data["variants"]),
        data=read_json(folder / "data" / "data.json", missing={}),
        measured_with=measured.get("settings") or {},
        measured_on=measured.get("machine") or {},
    )


def _variant(run: Path, data: Json, measurement: Json) -> Variant:
    folder = run / "results" / data["variant"]
    evaluation = read_json(folder / "evaluation.json", missing={})
    stale = _stale(evaluation, data)
    return Variant(
        name=data["variant"],
        role=data.get("role") or "variant",
        format=data.get("format") or "",
        path=data.get("path"),
        steps=tuple(_record(StepRecord, step) for step in data.get("steps") or ()),
        state=data.get("state") or "waiting",
        error=data.get("error"),
        folder=folder,
        layout={} if stale else evaluation.get("layout") or {},
        metrics={} if stale else {metric.name: metric for metric in _metrics(evaluation.get("metrics"))},
        measurement=measurement,
        probes=tuple(_probe(path, data["variant"]) for path in sorted(folder.glob("probes/*.json"))),
        stale=stale,
        paired=None if stale else evaluation.get("paired"),
        skipped=None if stale else evaluation.get("skipped"),
    )


def _stale(evaluation: Json, data: Json) -> bool:
    """True when the evaluation on disk is of other weights than the variant now has."""
    examined, now = evaluation.get("artifact_key"), data.get("artifact_key")
    return examined is not None and now is not None and examined != now


def _probe(path: Path, variant: str) -> ProbeResult:
    data = read_json(path)
    return _record(ProbeResult, data, probe=path.stem, variant=variant, metrics=tuple(_metrics(data.get("metrics"))))


def _metrics(items: Sequence[Json] | None) -> list[Metric]:
    return [Metric(**{item.name: data.get(item.name) for item in fields(Metric)}) for data in items or ()]  # type: ignore[arg-type]
