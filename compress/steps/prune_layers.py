"""Drop whole layers (Sajjad et al. 2020, "Poor Man's BERT: Smaller and Faster Transformer Models").

Does not retrain: add `distil` or `finetune` after. The new depth is written to the config, so a model that only lost
layers loads with plain `from_pretrained`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from assay.core.errors import InputError
from compress.pruning import save_edited
from compress.step import Context, Step

Strategy = Literal["top", "bottom", "odd", "even", "symmetric"]


class PruneLayers(Step):
    """Give `layers` (original numbers to keep), or `keep` (how many) with a `strategy` that says which go.

    top: the last ones. bottom: the first ones. symmetric: the middle ones. odd, even: every other layer counted from
    the top, by the paper's 1-based numbers; at most half of the layers can go this way."""

    keep: int | None = Field(default=None, ge=1)
    strategy: Strategy = "top"
    layers: list[int] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.keep is None) == (self.layers is None):
            raise ValueError("give either keep (with strategy) or layers")
        return self

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: kept and removed, original layer numbers."""
        from assay.core.model.edits import KeepLayers, layout_of
        from assay.core.model.load import load_module

        present = [layer.index for layer in layout_of(source.config, source.edits).layers]
        kept = self._kept(present)
        edits = save_edited(source, load_module(source), [KeepLayers(keep=kept, of=len(present))], out)
        return {"edits": edits, "kept": kept, "removed": [layer for layer in present if layer not in kept]}

    def tiny(self) -> Self:
        """Keep the first of two layers."""
        return self.model_copy(update={"keep": None, "layers": [0]})

    def _kept(self, present: list[int]) -> list[int]:
        if self.layers is not None:
            absent = sorted(set(self.layers) - set(present))
            if absent:
                raise InputError(f"prune_layers.layers: {absent} not among the layers present, {present}")
            return sorted(self.layers)
        assert self.keep is not None
        if self.keep > len(present):
            raise InputError(f"prune_layers.keep: {self.keep} is more than the {len(present)} layers present")
        gone = dropped(self.strategy, len(present), len(present) - self.keep)
        return [layer for position, layer in enumerate(present) if position not in gone]


def dropped(strategy: Strategy, depth: int, count: int) -> set[int]:
    """0-based positions that go when `count` of `depth` layers are dropped."""
    if strategy == "top":
        return set(range(depth - count, depth))
    if strategy == "bottom":
        return set(range(count))
    if strategy == "symmetric":
        first = (depth - count + 1) // 2
        return set(range(first, first + count))
    parity = 1 if strategy == "odd" else 0
    candidates = [position for position in reversed(range(depth)) if (position + 1) % 2 == parity]
    if count > len(candidates):
        raise InputError(f"prune_layers: strategy {strategy!r} can drop at most {len(candidates)} of {depth} layers")
    return set(candidates[:count])
