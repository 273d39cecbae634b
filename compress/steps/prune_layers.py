"""Drop whole layers (Sajjad et al. 2020, "Poor Man's BERT: Smaller and Faster Transformer Models"; Men et al. 2024).

Does not retrain: add `distil` or `finetune` after. The new depth is written to the config, so a model that only lost
layers loads with plain `from_pretrained`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact, is_language
from assay.core.errors import SettingError
from compress.pruning import not_among, save_edited, scoring_batches
from compress.step import Context, Step

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from assay.core.model.layout import Layout

Strategy = Literal["top", "bottom", "odd", "even", "symmetric", "contribution", "block_influence", "greedy"]
TOO_LARGE = "those of a language model are too large for that, use block_influence"
MEASURED = ("contribution", "block_influence", "greedy")


class PruneLayers(Step):
    """Give `layers` (original numbers to keep), or `keep` (how many) with a `strategy` that says which go.

    top: the last ones. bottom: the first ones. symmetric: the middle ones. odd, even: every other layer counted from
    the top, by the paper's 1-based numbers; at most half of the layers can go this way. These look at rows of the job:
    contribution: those that change the first token's state least. block_influence: those that change the state of any
    token least. greedy: one at a time, the one without which the validation loss is lowest."""

    keep: int | None = Field(default=None, ge=1)
    strategy: Strategy = "top"
    layers: list[int] | None = Field(default=None, min_length=1)
    rows: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.keep is None) == (self.layers is None):
            raise ValueError("give either keep (with strategy) or layers")
        return self

    def check(self, layout: Layout, teacher: Layout | None) -> Layout | None:
        """Without the layers that go; None where only rows can tell which."""
        from assay.core.model.edits import KeepLayers

        present = [layer.index for layer in layout.layers]
        self._check_present(present, layout.depths)
        return None if self._measured else KeepLayers(keep=self._kept(layout), of=layout.depths).apply(layout)

    def check_task(self, task: str, layout: Layout, teacher: Layout | None) -> None:
        """`greedy` is not for language models."""
        if self.strategy == "greedy" and self.layers is None and is_language(task):
            raise SettingError("prune_layers.strategy", f"greedy holds all answers without each layer; {TOO_LARGE}")

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: kept and removed, original layer numbers; `layer_scores` {layer: score} where rows were looked at: the
        lowest went, and greedy's is the loss without the layer, when it went or at the end."""
        from assay.core.model.edits import KeepLayers, layout_of
        from assay.core.model.load import load_module

        layout = layout_of(source.config, source.edits)
        present = [layer.index for layer in layout.layers]
        self._check_present(present, layout.depths)
        module = load_module(source)
        scores: dict[int, float] = {}
        if self._measured:
            kept, scores = self._kept_by_rows(present, module, source, ctx)
        else:
            kept = self._kept(layout)
        edits = save_edited(source, module, [KeepLayers(keep=kept, of=layout.depths)], out)
        removed = [layer for layer in present if layer not in kept]
        return {"edits": edits, "kept": kept, "removed": removed} | ({"layer_scores": scores} if scores else {})

    def tiny(self) -> Self:
        """Keep the first of two layers."""
        return self.model_copy(update={"keep": None, "layers": [0]})

    @property
    def _measured(self) -> bool:
        return self.layers is None and self.strategy in MEASURED

    def _check_present(self, present: list[int], depths: tuple[int, ...]) -> None:
        if self.layers is not None and (absent := sorted(set(self.layers) - set(present))):
            raise SettingError("prune_layers.layers", not_among("layers present", absent, present))
        if self.keep is not None and self.keep > min(depths):
            raise SettingError("prune_layers.keep", f"{self.keep} is more than the {min(depths)} layers present")
        if self._measured and len(depths) > 1:
            raise SettingError("prune_layers.strategy", f"{self.strategy} is for models of one stack; name the layers")

    def _kept(self, layout: Layout) -> list[int]:
        if self.layers is not None:
            return sorted(self.layers)
        assert self.keep is not None
        kept: list[int] = []
        for stack, depth in enumerate(layout.depths):
            present = [layer.index for layer in layout.layers if layer.stack == stack]
            gone = dropped(self.strategy, depth, depth - self.keep)
            kept += [layer for position, layer in enumerate(present) if position not in gone]
        return kept

    def _kept_by_rows(
        self, present: list[int], module: PreTrainedModel, source: Artifact, ctx: Context
    ) -> tuple[list[int], dict[int, float]]:
        """(layers that stay, score of each present one). Greedy asks rows that the model was not trained on."""
        from assay.core.model.anatomy import family_of
        from compress import layer_scores

        assert self.keep is not None
        count, family = len(present) - self.keep, family_of(source.family)
        held_out = ctx.data.validation if self.strategy == "greedy" and len(ctx.data.validation) else None
        batches = list(scoring_batches(source, ctx, self.rows, batch_size=32, split=held_out))
        if self.strategy == "greedy":
            gone, scores = layer_scores.greedy(module, family, batches, ctx.data.task, count)
        else:
            scores = getattr(layer_scores, self.strategy)(module, batches)
            gone = sorted(range(len(present)), key=scores.__getitem__)[:count]
        kept = [layer for position, layer in enumerate(present) if position not in gone]
        return kept, dict(zip(present, scores, strict=True))


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
        text = f"{strategy!r} can drop at most {len(candidates)} of {depth} layers"
        raise SettingError("prune_layers.strategy", text)
    return set(candidates[:count])
