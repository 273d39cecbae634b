"""`assay analyse sensitivity`: what a variant of a run loses without each head, each layer and each group of neurons.

The findings go to `results/VARIANT/sensitivity.json` and, as a page, `sensitivity.html` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.artifact import Artifact, is_language, open_finished, open_source
from assay.core.data.prepare import NAMES, Split
from assay.core.errors import InputError
from assay.core.manifest import write_json
from assay.core.model.ranges import to_ranges
from assay.core.plugins import nearest
from assay.core.stats import predicted_labels
from assay.run.saved_data import read_split

if TYPE_CHECKING:
    from assay.core.model.ablate import Cut
    from assay.core.model.encoder import Encoder
    from assay.core.model.images import ImageEncoder
    from assay.core.model.layout import Layout

BATCH = 4  # rows; few enough for one pass to hold them with each head of a layer cut in turn
Inputs = tuple[list[int], dict[str, np.ndarray]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Removed:
    """What one row of the findings is without: `number` is the head or the group; all in original numbers."""

    part: str
    layer: int
    number: int | None
    neurons: str | None
    cut: Cut


def analyse(run: Path, variant: str, split: str, rows: int | None, groups: int, progress: Progress) -> Path:
    """Write both files and return the path of the JSON.

    `variant` names one of the run, or a finished folder of its store. The first `rows` of the split are used, which
    are a fair sample. `groups` are neuron groups a layer, 0 for none. InputError where the run, the variant or its rows
    are not there, and for a language model."""
    from reports.sensitivity import build

    if split not in NAMES:
        raise InputError(f"split {split!r} is not one of {', '.join(NAMES)}")
    record = _record(run)
    if is_language(record["task"]):
        raise InputError(f"{run}: all answers without each part are compared, and those of a language model do not fit")
    name, artifact = find_weights(run, record, variant)
    chosen = _visible(read_split(run / "data", split), rows, record["task"])
    found = sensitivity(artifact, chosen, record["job"]["data"]["max_length"], groups, progress)
    path = run / "results" / name / "sensitivity.json"
    about = {"run": record["name"], "variant": name, "weights": artifact.path.name, "artifact_key": artifact.key}
    write_json(path, {**about, "split": split, "rows": len(chosen), **found})
    build(path)
    return path


def find_weights(run: Path, record: dict[str, Any], variant: str) -> tuple[str, Artifact]:
    """(name, torch weights) of a variant, those it had before export where it ends in ONNX; or of a store folder."""
    variants = {each["variant"]: each for each in record["variants"]}
    if variant not in variants:
        folder = next((path for path in (run / variant, run / "store" / variant) if path.is_dir()), None)
        if folder is None:
            raise InputError(f"{run}: no variant or finished folder {variant!r}{nearest(variant, list(variants))}")
        return folder.name, _torch(open_finished(folder))
    done = [step for step in variants[variant]["steps"] if step["state"] == "done"]
    artifacts = [open_finished(run / step["path"]) for step in done]
    weights = [artifact for artifact in artifacts if artifact.format == "torch"]
    if len(done) < len(variants[variant]["steps"]):
        raise InputError(f"{run}: variant {variant!r} is not done ({variants[variant]['error'] or 'waiting'})")
    if weights:
        return variant, weights[-1]
    return variant, open_source(Path(variants["teacher"]["path"]), record["task"])  # exported as it came


def sensitivity(artifact: Artifact, split: Split, max_length: int, groups: int, progress: Progress) -> dict[str, Any]:
    """{"whole": {accuracy, loss}, "removed": [{part, layer, number, neurons, accuracy, loss, ...changes}]}.

    Accuracy is the share of rows answered right (multi-label: every label right), None for regression."""
    from assay.core.model.edits import layout_of

    removed = list(_parts(layout_of(artifact.config, artifact.edits), groups))
    whole, logits = _answers(artifact, split.texts, [each.cut for each in removed], max_length, progress)
    base = _quality(whole, split, artifact.task)
    return {
        "whole": base,
        "removed": [
            _row(each, _quality(own, split, artifact.task), base) for each, own in zip(removed, logits, strict=True)
        ],
    }


def _answers(
    artifact: Artifact, texts: Sequence[str], cuts: list[Cut], max_length: int, progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    """Logits [n, labels] of the whole model and [cuts, n, labels] without each part."""
    from assay.core.model.ablate_batches import logits_without_of_each
    from assay.core.model.anatomy import family_of
    from assay.core.model.encoder import open_encoder
    from assay.core.model.load import load_module
    from assay.core.model.predict import tensors

    module, family = load_module(artifact, attn_implementation="sdpa"), family_of(artifact.family)
    whole = np.zeros((len(texts), module.config.num_labels), np.float32)
    without = np.zeros((len(cuts), *whole.shape), np.float32)
    done, batches = 0, longest_first(open_encoder(artifact, max_length), texts)
    found = logits_without_of_each(module, family, [tensors(inputs) for _, inputs in batches], cuts)
    for (rows, _), (plain, cut) in zip(batches, found, strict=True):
        whole[rows], without[:, rows] = plain.float().numpy(), cut.float().numpy()
        progress(done := done + len(rows), len(texts))
    return whole, without


def longest_first(encoder: Encoder | ImageEncoder, texts: Sequence[str], size: int = BATCH) -> list[Inputs]:
    """(positions in `texts`, inputs) of `size` rows each, so that no thread ends long after the others
    on a batch of long rows."""
    return [*encoder.batches(texts, size)][::-1]


def _parts(layout: Layout, groups: int) -> Iterator[Removed]:
    """Every head, every layer, and the neurons of each layer in `groups` runs of neighbours."""
    from assay.core.model.ablate import Cut

    for place, layer in enumerate(layout.layers):
        for unit, head in enumerate(layer.heads):
            yield Removed("head", layer.index, head, None, Cut(place, "heads", (unit,)))
    for place, layer in enumerate(layout.layers):
        yield Removed("layer", layer.index, None, None, Cut(place, "layer"))
    for place, layer in enumerate(layout.layers):
        for number, part in enumerate(np.array_split(np.arange(len(layer.neurons)), groups) if groups else []):
            if len(part):
                named = to_ranges([layer.neurons[unit] for unit in part])
                yield Removed("neurons", layer.index, number, named, Cut(place, "neurons", tuple(part.tolist())))


def _quality(logits: np.ndarray, split: Split, task: str) -> dict[str, float | None]:
    import torch

    from compress.losses.task import task_loss

    loss = task_loss(torch.from_numpy(logits).double(), torch.from_numpy(split.labels), task).item()
    if task == "text-regression":
        return {"accuracy": None, "loss": loss}
    right = (predicted_labels(logits, task) == split.labels).reshape(len(split), -1).all(axis=1)
    return {"accuracy": float(right.mean()), "loss": loss}


def _row(removed: Removed, quality: dict[str, float | None], base: dict[str, float | None]) -> dict[str, Any]:
    about = {"part": removed.part, "layer": removed.layer, "number": removed.number, "neurons": removed.neurons}
    changes = {
        f"{name}_change": None if value is None else value - (base[name] or 0) for name, value in quality.items()
    }
    return {**about, **quality, **changes}


def _visible(split: Split, rows: int | None, task: str) -> Split:
    """The first `rows` whose label is known."""
    known = (
        np.ones(len(split), bool)
        if task == "text-regression"
        else (split.labels.reshape(len(split), -1) >= 0).all(axis=1)
    )
    chosen = np.flatnonzero(known)[:rows]
    if not len(chosen):
        raise InputError("no rows with a known label to analyse; choose another --split")
    return split.take(chosen)


def _torch(artifact: Artifact) -> Artifact:
    if artifact.format != "torch":
        raise InputError(f"{artifact.path}: an {artifact.format} folder holds no torch weights; name the step before")
    return artifact


def _record(run: Path) -> dict[str, Any]:
    from reports.collect import read_json

    path = run / "run.json"
    if not path.is_file():
        raise InputError(f"{run}: no run.json in it; is it a run folder?")
    return read_json(path)
