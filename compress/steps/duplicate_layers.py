"""Run layers again right after themselves (Kao et al. 2020, "BERT's output layer recognizes all hidden layers? Some
intriguing phenomena and a simple way to boost BERT"): the opposite control to `prune_layers`.

It makes a model slower, not larger: a repeat has the weights of its layer, and training after it trains the one set.
The paper copies layers, and its copies part ways in fine-tuning.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from assay.core.errors import SettingError
from compress.pruning import not_among, save_edited
from compress.step import Context, Step

if TYPE_CHECKING:
    from assay.core.model.edits import DuplicateLayers as DuplicateEdit
    from assay.core.model.layout import Layout


class DuplicateLayers(Step):
    """Each of `layers`, original numbers, is run `times` in all. Repeats are layers of numbers of their own, which go
    on from the last of the original model."""

    layers: list[int] = Field(min_length=1)
    times: int = Field(default=2, ge=2, le=64)

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        if len(set(self.layers)) < len(self.layers):
            raise ValueError(f"layers {self.layers} name one twice; give times instead")
        return self

    def check(self, layout: Layout, teacher: Layout | None) -> Layout:
        """With the repeats."""
        return self._edit(layout).apply(layout)

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: order, the numbers of all layers as they run, and repeats {number: the layer whose weights it has}."""
        from assay.core.model.edits import layout_of
        from assay.core.model.load import load_module

        layout = layout_of(source.config, source.edits)
        edit = self._edit(layout)
        edits = save_edited(source, load_module(source), [edit], out)
        after = edit.apply(layout).layers
        present = {layer.index for layer in layout.layers}
        repeats = {layer.index: layer.owner for layer in after if layer.index not in present}
        return {"edits": edits, "order": [layer.index for layer in after], "repeats": repeats}

    def tiny(self) -> Self:
        """The first of two layers."""
        return self.model_copy(update={"layers": [0]})

    def _edit(self, layout: Layout) -> DuplicateEdit:
        from assay.core.model.edits import DuplicateLayers as DuplicateEdit

        present = [layer.index for layer in layout.layers]
        if absent := sorted(set(self.layers) - set(present)):
            raise SettingError("duplicate_layers.layers", not_among("layers present", absent, present))
        return DuplicateEdit(self.layers, self.times, layout.depths)
