"""Remove attention heads that matter least, physically and unevenly by layer (Michel et al. 2019).

Does not retrain: add `finetune` or `distil` after.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from compress.pruning import save_edited, scoring_batches
from compress.step import Context, Step


class PruneHeads(Step):
    """`fraction` of all heads goes, lowest gradient importance first, over the whole model or the same share in every
    layer; or `remove` names heads outright, {layer: [heads]} in original numbers. A layer never loses its last head.

    `rows` training rows are scored: more rows, less noise."""

    fraction: float | None = Field(default=None, gt=0, lt=1)
    scope: Literal["global", "layer"] = "global"
    remove: dict[int, list[int]] | None = None
    rows: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.fraction is None) == (self.remove is None):
            raise ValueError("give either fraction or remove")
        return self

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: kept, removed, and scores by original layer and head (scores of explicit removals are empty)."""
        from assay.core.anatomy import family_of
        from assay.core.edits import KeepHeads, layout_of, mask_heads
        from assay.core.load import load_module
        from compress.scoring import keep_best, sensitivity, unit_norm

        heads = {layer.index: list(layer.heads) for layer in layout_of(source.config, source.edits).layers}
        module = load_module(source)
        scores: dict[int, list[float]] = {}
        if self.remove is None:
            assert self.fraction is not None
            masker = partial(mask_heads, family=family_of(source.family))
            raw = sensitivity(
                module,
                scoring_batches(source, ctx, self.rows, 32),
                [len(present) for present in heads.values()],
                lambda model, masks: masker(model, masks=masks),
                ctx.data.task,
            )
            normed = unit_norm(raw)
            positions = keep_best(normed, self.fraction, self.scope == "layer")
            kept = {i: [heads[i][p] for p in best] for i, best in zip(heads, positions, strict=True)}
            scores = {i: layer.tolist() for i, layer in zip(heads, normed, strict=True)}
        else:
            kept = {i: [h for h in present if h not in self.remove.get(i, [])] for i, present in heads.items()}
        edits = save_edited(source, module, [KeepHeads(heads=kept)], out)
        removed = {i: [h for h in present if h not in kept[i]] for i, present in heads.items()}
        return {"edits": edits, "kept": kept, "removed": removed, "scores": scores, "present": heads}
