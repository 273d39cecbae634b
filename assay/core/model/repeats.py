"""Which layers of a model are others run again, and of which layer of the original model."""

from __future__ import annotations

from assay.core.artifact import Artifact
from assay.core.model.duplicate_edit import DuplicateLayers
from assay.core.model.edits import edits_from_json, layout_of


def repeats_of(artifact: Artifact) -> dict[int, int]:
    """Number of each repeat ever made -> the original layer that it repeats. Those that have gone since are among them;
    a repeat of a repeat is one of the same layer."""
    made = [edit for edit in edits_from_json(artifact.edits) if isinstance(edit, DuplicateLayers)]
    if not made:
        return {}
    repeated = sum((edit.times - 1) * len(edit.layers) for edit in made)
    number = layout_of(artifact.config, artifact.edits).numbered - repeated
    order, repeats = list(range(number)), dict[int, int]()
    for edit in made:
        after = []
        for layer in order:
            more = range(number, number + (edit.times - 1) * (layer in edit.layers))
            repeats |= dict.fromkeys(more, repeats.get(layer, layer))
            after += [layer, *more]
            number += len(more)
        order = after
    return repeats
