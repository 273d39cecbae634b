"""Remove attention heads that matter least, physically and unevenly by layer (Michel et al. 2019).

Does not retrain: add `finetune` or `distil` after.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from assay.core.errors import InputError
from compress.pruning import save_edited, score_units
from compress.step import Context, Step

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Heads = dict[int, list[int]]
Scores = dict[int, list[float]]


class PruneHeads(Step):
    """`fraction` of all heads goes, lowest gradient importance first, over the whole model or the same share in every
    layer; or `remove` names heads outright, {layer: [heads]} in original numbers. A layer never loses its last head.

    `rows` training rows are scored: more rows, less noise."""

    fraction: float | None = Field(default=None, gt=0, lt=1)
    scope: Literal["global", "layer"] = "global"
    remove: Heads | None = None
    rows: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.fraction is None) == (self.remove is None):
            raise ValueError("give either fraction or remove")
        return self

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts by original layer: heads present before, kept, removed, and the scores of those present (none where
        `remove` named them)."""
        from assay.core.model.edits import KeepHeads, layout_of
        from assay.core.model.load import load_module

        present = {layer.index: list(layer.heads) for layer in layout_of(source.config, source.edits).layers}
        module = load_module(source)
        kept, scores = self._named(present) if self.remove is not None else self._scored(present, module, source, ctx)
        edits = save_edited(source, module, [KeepHeads(heads=kept)], out)
        removed = {layer: [head for head in heads if head not in kept[layer]] for layer, heads in present.items()}
        return {"edits": edits, "present": present, "kept": kept, "removed": removed, "scores": scores}

    def tiny(self) -> Self:
        """A quarter of the heads instead of named ones, which a two-layer model may not have."""
        return self if self.remove is None else self.model_copy(update={"remove": None, "fraction": 0.25})

    def _scored(self, present: Heads, module: PreTrainedModel, source: Artifact, ctx: Context) -> tuple[Heads, Scores]:
        from compress.scoring import keep_best

        assert self.fraction is not None
        scores = score_units("heads", module, source, ctx, self.rows)
        best = keep_best(scores, self.fraction, per_layer=self.scope == "layer")
        kept = {layer: [heads[i] for i in chosen] for (layer, heads), chosen in zip(present.items(), best, strict=True)}
        return kept, {layer: values.tolist() for layer, values in zip(present, scores, strict=True)}

    def _named(self, present: Heads) -> tuple[Heads, Scores]:
        remove = self.remove or {}
        absent = {layer: sorted(set(heads) - set(present.get(layer, []))) for layer, heads in remove.items()}
        absent = {layer: heads for layer, heads in absent.items() if heads or layer not in present}
        if absent:
            raise InputError(f"prune_heads.remove: {absent} not among the heads present, {present}")
        kept = {layer: [h for h in heads if h not in remove.get(layer, [])] for layer, heads in present.items()}
        return kept, {}
