"""What each step of a variant did, in words: its settings, recorded facts, training curve and removed heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from reports import units
from reports.charts import Frame, Series, lines
from reports.collect import Run, StepRecord
from reports.heat_map import heat_map

Told = dict[str, str]
LONGEST = 400
CURVE_POINTS = 120
MOST_OPS = 12


@dataclass(frozen=True)
class HeadMap:
    """Importance of every head of the full model, as one step scored it; `names` are the variants with that step."""

    names: tuple[str, ...]
    chart: Markup
    table: tuple[tuple[int, int, str, bool], ...]  # layer, head, score, removed
    removed: int
    of: int


def settings(step: StepRecord) -> Told:
    """Setting -> value as it reads in YAML."""
    return {name: plain(value) for name, value in step.settings.items()}


def facts(step: StepRecord) -> Told:
    """Name of a fact -> its value in words; facts of a kind not known here are shown as they were recorded."""
    told: Told = {}
    for name, value in step.facts.items():
        if name in _HIDDEN or value is None:
            continue
        known = _KNOWN.get((step.step, name)) or _KNOWN.get(("", name))
        told |= known(value) if known else {units.title(name): plain(value)}
    return told


def curve(step: StepRecord) -> list[tuple[float, float]]:
    """Training step and loss, thinned to what a small chart can show."""
    points = [(float(p["step"]), float(p["loss"])) for p in step.facts.get("curve") or () if p.get("loss") is not None]
    stride = -(-len(points) // CURVE_POINTS) or 1
    return points[::stride] if not points or points[::stride][-1] == points[-1] else [*points[::stride], points[-1]]


def curve_chart(step: StepRecord) -> Markup | None:
    """The training curve; None where there is none to draw."""
    points = curve(step)
    if len(points) < 2:
        return None
    return lines(
        [Series("loss", points)], "training step", "loss", f"Training loss of {step.step}", frame=Frame(430, 200)
    )


def head_maps(run: Run) -> list[HeadMap]:
    """One map per step that removed heads, shared by the variants that went through that very step."""
    shared: dict[str, tuple[list[str], StepRecord]] = {}
    for variant in run.variants:
        for step in variant.steps:
            if step.facts.get("removed") and step.facts.get("scores"):
                shared.setdefault(step.key or f"{variant.name} {step.step}", ([], step))[0].append(variant.name)
    return [_head_map(names, step) for names, step in shared.values()]


def plain(value: Any) -> str:
    """A value as it would stand in YAML on one line, cut where it is very long."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int | float):
        return units.count(value) if isinstance(value, int) else f"{value:.6g}"
    text = str(value)
    if isinstance(value, list | tuple):
        text = f"[{', '.join(plain(item) for item in value)}]"
    if isinstance(value, Mapping):
        text = ", ".join(f"{name}: {_inner(item)}" for name, item in value.items())
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def _inner(value: Any) -> str:
    return f"({plain(value)})" if isinstance(value, Mapping) else plain(value)


def _head_map(names: list[str], step: StepRecord) -> HeadMap:
    present = step.facts.get("present") or {}  # heads that an earlier step removed have no score
    rows = {n: zip(present.get(n, range(len(row))), row, strict=True) for n, row in step.facts["scores"].items()}
    scores = {(int(n), int(head)): float(score) for n, row in rows.items() for head, score in row}
    removed = {(int(n), int(head)) for n, heads in step.facts["removed"].items() for head in heads}
    title = f"Importance of each head, {', '.join(names)}"
    table = tuple((*at, units.significant(score), at in removed) for at, score in sorted(scores.items()))
    return HeadMap(tuple(names), heat_map(scores, title, "importance", removed), table, len(removed), len(scores))


def _heads(value: Mapping[str, Iterable[int]]) -> Told:
    each = [f"layer {layer}: {_numbers(heads)}" for layer, heads in value.items() if heads]
    total = sum(len(list(heads)) for heads in value.values())
    return {"Heads removed": f"{total} ({'; '.join(each)})"}


def _numbers(values: Iterable[int]) -> str:
    return ", ".join(str(value) for value in values) or "none"


def _neurons(value: Mapping[str, int]) -> Told:
    return {"FFN neurons kept": "; ".join(f"layer {layer}: {units.count(n)}" for layer, n in value.items())}


def _parity(value: Mapping[str, Any]) -> Told:
    told: Told = {}
    if value.get("max_abs") is not None:
        told["Largest difference of a logit"] = _difference(value)
    if value.get("flips") is not None:
        told["Answers changed"] = f"{value['flips']} of {value.get('rows', units.NOTHING)} rows"
    if value.get("shapes"):
        told["Compared in shapes"] = ", ".join(_shape(shape) for shape in value["shapes"])
    return told


def _shape(shape: Sequence[int | None]) -> str:
    """Batch × tokens, of images the batch alone; a length that is not set is that of the rows themselves."""
    if len(shape) == 1:
        return f"batch of {shape[0]}"
    return "\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}".join("own length" if size is None else str(size) for size in shape)


def _difference(value: Mapping[str, Any]) -> str:
    mean = f", {value['mean_abs']:.2g} on average" if value.get("mean_abs") is not None else ""
    limit = f", tolerance {value['tolerance']:g}" if value.get("tolerance") is not None else ""
    return f"{value['max_abs']:.2g}{mean}{limit}"


def _ops(value: Mapping[str, int]) -> Told:
    most = sorted(value.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{name}\N{NO-BREAK SPACE}{n}" for name, n in most[:MOST_OPS]]
    rest = most[MOST_OPS:]
    told += [f"{len(rest)} other kinds {sum(n for _, n in rest)}"] if rest else []
    return {units.title("ops"): ", ".join(told)}


_HIDDEN = ("scores", "curve", "edits", "present", "settings")
_KNOWN: dict[tuple[str, str], Callable[[Any], Told]] = {
    ("prune_heads", "removed"): _heads,
    ("prune_heads", "kept"): lambda value: {},
    ("prune_layers", "removed"): lambda value: {"Layers removed": _numbers(value)},
    ("prune_layers", "kept"): lambda value: {"Layers kept": _numbers(value)},
    ("prune_ffn", "kept_neurons"): _neurons,
    ("prune_ffn", "of"): lambda value: {"FFN neurons a layer before": units.count(value)},
    ("cut_vocab", "coverage_train"): lambda value: {"Tokens of training texts kept": units.percent(value)},
    ("cut_vocab", "coverage"): lambda value: {"Tokens of validation texts kept": units.percent(value)},
    ("cut_vocab", "unknown_before"): lambda value: {"Unknown tokens before": units.percent(value)},
    ("cut_vocab", "unknown_after"): lambda value: {"Unknown tokens after": units.percent(value)},
    ("cut_vocab", "bytes_saved"): lambda value: {"Weights smaller by": units.size(value)},
    ("", "parity"): _parity,
    ("", "ops"): _ops,
}
