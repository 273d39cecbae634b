"""What the probes found, made ready to show. The same findings of several variants are shown once, with all names."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from markupsafe import Markup

from reports.charts import Series, lines, y_values
from reports.collect import ProbeResult, Run, Variant
from reports.heat_map import heat_map
from reports.rows import OTHER_TOKENS

# Cells of one map and of all maps: beyond them evenly spaced layers are shown, and the page says which.
MOST_CELLS, MOST_CELLS_IN_ALL = 400, 1200
BEFORE_EXPORT = "torch weights before export"
BY_LAYER = ("linear", "tokens", "senteval")  # probes whose tasks are classifiers a layer
OWN_SECTION = ("linear", "attention", "typos", "fidelity", "similarity", "attribution", "heads")
# Figures of a head's attention and their columns, of texts and of images.
OF_TEXTS = {
    "entropy": "Entropy, nats",
    "distance": "Distance, tokens",
    "separators": "On separators",
    "punctuation": "On punctuation",
    "same": "On itself",
    "previous": "On the one before",
    "next": "On the one after",
}
OF_IMAGES = {
    "entropy": "Entropy, nats",
    "distance": "Distance, patches",
    "separators": "On the model’s own tokens",
    "same": "On itself",
    "left": "To the left",
    "right": "To the right",
    "above": "Above",
    "below": "Below",
}


@dataclass(frozen=True)
class Found:
    """One set of findings and the variants that share it."""

    names: tuple[str, ...]
    result: ProbeResult
    before_export: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The variants' names in a line."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class Curve:
    """One model's accuracy by layer on one task; `rows` is its table."""

    found: Found
    chart: Markup
    rows: tuple[Mapping[str, Any], ...]
    task: Mapping[str, Any]


@dataclass(frozen=True)
class Heads:
    """Attention of one model: the entropy map, layer means, and the table of heads. `shown` layers of `of`; `columns`
    are the figures there are, with their titles."""

    found: Found
    chart: Markup
    columns: Mapping[str, str]
    layers: tuple[Mapping[str, Any], ...]
    heads: tuple[Mapping[str, Any], ...]
    shown: tuple[int, ...]
    of: int
    n_rows: int | None


def probe_names(run: Run) -> list[str]:
    """Every probe that the job asks for or that left results, in that order."""
    asked = [_asked(item) for item in run.job.get("probes") or ()]
    found = [result.probe for variant in run.variants for result in variant.probes]
    return list(dict.fromkeys(name for name in [*asked, *found] if name))


def results(run: Run, probe: str) -> list[ProbeResult]:
    """The results of one probe with findings, in the order of the variants."""
    every = [result for variant in run.variants for result in variant.probes]
    return [result for result in every if result.probe == probe and result.reason is None]


def shared(run: Run, probe: str) -> list[Found]:
    """The results of one probe, those with equal findings as one."""
    groups: dict[str, list[ProbeResult]] = {}
    for result in results(run, probe):
        groups.setdefault(_identity(result), []).append(result)
    return [_found(group) for group in groups.values()]


def linear_tasks(run: Run) -> dict[str, list[Curve]]:
    """Task -> one curve a model; the curves of a task share their axes, so that they can be compared by eye. Tasks of
    other probes than `linear` are called after the probe too."""
    tasks: dict[str, list[tuple[Found, Mapping[str, Any]]]] = {}
    for probe in BY_LAYER:
        for found in shared(run, probe):
            for task in found.result.details.get("tasks") or ():
                name = str(task.get("task")) if probe == "linear" else f"{probe}: {task.get('task')}"
                if task.get("layers"):
                    tasks.setdefault(name, []).append((found, task))
    return {name: _curves(name, items) for name, items in tasks.items()}


def silver_parsers(tasks: Mapping[str, Sequence[Curve]]) -> list[str]:
    """The parsers whose word stands for the truth in some of the tasks that are shown."""
    shown = [curve for curves in tasks.values() for curve in curves if curve.task.get("silver", True)]
    return list(dict.fromkeys(curve.found.result.silver for curve in shown if curve.found.result.silver))


def attention(run: Run) -> list[Heads]:
    """Attention statistics of each distinct model."""
    found = [each for each in shared(run, "attention") if _has_heads(each.result)]
    every = [head["entropy"] for each in found for layer in each.result.details["layers"] for head in layer["heads"]]
    span = (min(every, default=0.0), max(every, default=0.0))
    columns, most = OF_IMAGES if run.has_images else OF_TEXTS, min(MOST_CELLS, MOST_CELLS_IN_ALL // max(1, len(found)))
    return [_heads(each, columns, most, span) for each in found]


def changed_words(before: str, after: str) -> list[tuple[str, bool]]:
    """The pieces of `after`, words and the space between, each with whether it is not in `before` at that place."""
    old, new = (re.findall(r"\s+|\S+", text) for text in (before, after))
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    changed = {at for tag, _, _, start, end in matcher.get_opcodes() if tag != "equal" for at in range(start, end)}
    return [(piece, at in changed) for at, piece in enumerate(new)]


def missing(run: Run) -> list[tuple[str, str, str]]:
    """What is skipped, failed or not there yet: the variants it holds for, what, why."""
    names: dict[tuple[str, str], list[str]] = {}
    for variant in run.variants:
        for reason in _missing(run, variant):
            names.setdefault(reason, []).append(variant.name)
    return [(", ".join(given), what, why) for (what, why), given in names.items()]


def _missing(run: Run, variant: Variant) -> Iterable[tuple[str, str]]:
    if variant.state != "done":
        steps = [step for step in variant.steps if step.error]
        what = f"{variant.state} at {steps[0].step}" if steps else variant.state
        yield what, variant.error or (steps[0].error if steps else None) or "no reason was recorded"
        return
    if variant.stale:
        yield "evaluation", "is of other weights than the variant now has; run the job again"
    elif not variant.metrics:
        yield "evaluation", f"skipped, because {variant.skipped}" if variant.skipped else "not measured yet"
    if variant.paired is False:
        yield "comparison with the teacher", f"skipped, because {OTHER_TOKENS}"
    if not variant.measurement:
        yield "size and speed", "not measured yet"
    there = {result.probe for result in variant.probes}
    yield from ((f"probe {name}", "not measured yet") for name in probe_names(run) if name not in there)
    for result in variant.probes:
        yield from ((f"probe {result.probe}{part}", why) for part, why in _untold(result))


def _untold(result: ProbeResult) -> Iterable[tuple[str, str]]:
    """Reasons for a whole probe, or for single tasks or comparisons of it, that have no findings."""
    if result.reason is not None:
        yield "", f"failed: {result.failed}" if result.failed else f"skipped, because {result.skipped}"
    for task in result.details.get("tasks") or ():
        if task.get("skipped"):
            yield f", task {task.get('task')}", f"skipped, because {task['skipped']}"
    for comparison in result.details.get("comparisons") or ():
        if comparison.get("skipped"):
            yield f", vectors of {comparison.get('vectors')}", f"skipped, because {comparison['skipped']}"


def _asked(item: Any) -> str | None:
    if isinstance(item, dict):
        return item.get("probe") or next(iter(item), None)
    return item if isinstance(item, str) else None


def _identity(result: ProbeResult) -> str:
    metrics = [asdict(metric) for metric in result.metrics]
    return json.dumps([result.settings, metrics, result.details], sort_keys=True, ensure_ascii=False)


def _found(group: Sequence[ProbeResult]) -> Found:
    before = tuple(result.variant for result in group if result.examined == BEFORE_EXPORT)
    return Found(tuple(result.variant for result in group), group[0], before)


def _curves(task: str, items: Sequence[tuple[Found, Mapping[str, Any]]]) -> list[Curve]:
    levels = [_levels(data) for _, data in items]
    every = [_series(data) for _, data in items]
    bounds = [y_values(series, level) for series, level in zip(every, levels, strict=True)]
    numbers = [row["layer"] for _, data in items for row in data["layers"]]
    y, x = (min(low for low, _ in bounds), max(high for _, high in bounds)), (min(numbers), max(numbers))
    x = x if x[1] > x[0] else (x[0] - 1, x[1] + 1)
    return [
        Curve(
            found,
            lines(series, "layer", "accuracy", f"{task}, {found.title}", level, y, x),
            tuple(data["layers"]),
            data,
        )
        for (found, data), series, level in zip(items, every, levels, strict=True)
    ]


def _levels(task: Mapping[str, Any]) -> dict[str, float]:
    return {"majority": task["majority"]} if task.get("majority") is not None else {}


def _series(task: Mapping[str, Any]) -> list[Series]:
    """Accuracy and control by layer; a second pooling adds a second pair."""
    poolings = list(dict.fromkeys(row.get("pooling") for row in task["layers"]))
    series = []
    for index, pooling in enumerate(poolings):
        rows = [row for row in task["layers"] if row.get("pooling") == pooling]
        suffix = f" ({pooling})" if len(poolings) > 1 else ""
        series.append(_one(rows, "accuracy", f"probe{suffix}", 2 * index))
        series.append(_one(rows, "control", f"control{suffix}", 2 * index + 1))
    return [one for one in series if one.points]


def _one(rows: Sequence[Mapping[str, Any]], key: str, name: str, look: int) -> Series:
    known = [row for row in rows if row.get(key) is not None]
    bounds = [(row.get("low"), row.get("high")) for row in known] if key == "accuracy" else []
    return Series(name, [(row["layer"], row[key]) for row in known], bounds, look)


def _heads(found: Found, titles: Mapping[str, str], most: int, span: tuple[float, float]) -> Heads:
    layers = found.result.details["layers"]
    there = {name for layer in layers for head in layer["heads"] for name in head}
    columns = {name: title for name, title in titles.items() if name in there}
    kept = _spaced(layers, max(2, most // max(1, *(len(layer["heads"]) for layer in layers))))
    values = {(layer["layer"], head["head"]): head["entropy"] for layer in kept for head in layer["heads"]}
    gaps = {(layer["layer"], h) for layer in kept for h in range(_widest(kept))} - values.keys()
    return Heads(
        found=found,
        chart=heat_map(values, f"Attention entropy in nats, {found.title}", "entropy", gaps, span),
        columns=columns,
        layers=tuple(_layer_means(layer, columns) for layer in layers),
        heads=tuple({"layer": layer["layer"], **head} for layer in kept for head in layer["heads"]),
        shown=tuple(layer["layer"] for layer in kept),
        of=len(layers),
        n_rows=found.result.details.get("n_rows"),
    )


def _has_heads(result: ProbeResult) -> bool:
    return any(layer["heads"] for layer in result.details.get("layers") or ())


def _widest(layers: Sequence[Mapping[str, Any]]) -> int:
    return max((head["head"] + 1 for layer in layers for head in layer["heads"]), default=0)


def _spaced(layers: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """At most `most` of the layers, evenly spaced, the first and last among them."""
    if len(layers) <= most:
        return list(layers)
    return [layers[round(at * (len(layers) - 1) / (most - 1))] for at in range(most)]


def _layer_means(layer: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    known = {name: [head[name] for head in layer["heads"] if head.get(name) is not None] for name in names}
    means = {name: fmean(values) if values else None for name, values in known.items()}
    return {"layer": layer["layer"], "heads": len(layer["heads"]), **means}
