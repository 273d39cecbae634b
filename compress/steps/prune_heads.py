"""Remove attention heads that matter least, physically and unevenly by layer (Michel et al. 2019).

Does not retrain: add `finetune` or `distil` after.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact, is_language
from assay.core.errors import SettingError
from compress.pruning import choose_units, not_among, save_edited, scoring_subject
from compress.step import Context, Step

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from assay.core.model.edits import KeepHeads
    from assay.core.model.layout import Layout

Heads = dict[int, list[int]]
Scores = dict[int, list[float]]
Score = Literal[
    "gradient", "fisher", "ablation", "relevance", "attention_distillation", "magnitude", "confidence", "random"
]


class PruneHeads(Step):
    """`fraction` of all heads goes, lowest `score` first, over the whole model or the same share in every layer; or
    `remove` names heads outright, {layer: [heads]} in original numbers. A layer never loses its last head.

    score: sensitivity of the loss (`gradient`), its second-order rise (`fisher`), the loss without the head
    (`ablation`, slow), part of the predicted class's logit (`relevance`), share of the layer's attention output that it
    writes (`attention_distillation`), size of the output weights (`magnitude`), mean largest attention weight
    (`confidence`), or `random` as a control. `iterations` removes in that many equal parts and scores anew before each.
    `rows` training rows are scored: more rows, less noise. `attention`: the layers' own, or `cross`, a decoder's
    attention to its encoder."""

    fraction: float | None = Field(default=None, gt=0, lt=1)
    score: Score = "gradient"
    iterations: int = Field(default=1, ge=1)
    scope: Literal["global", "layer"] = "global"
    remove: Heads | None = None
    rows: int = Field(default=256, ge=1)
    attention: Literal["self", "cross"] = "self"

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.fraction is None) == (self.remove is None):
            raise ValueError("give either fraction or remove")
        if self.attention == "cross" and self.score == "confidence":
            raise ValueError("confidence looks at the layers' own attention; score cross heads otherwise")
        if self.iterations > 1 and self.score in ("magnitude", "random"):
            raise ValueError(f"iterations {self.iterations}: {self.score} scores do not change when heads go; use 1")
        return self

    def check(self, layout: Layout, teacher: Layout | None) -> Layout:
        """Without the heads that `remove` names; which ones `fraction` takes, only scores can tell."""
        present = self._present(layout)
        return layout if self.remove is None else self._edit(self._named(present)).apply(layout)

    def check_task(self, task: str, layout: Layout, teacher: Layout | None) -> None:
        """`ablation` is not for language models."""
        if self.fraction is not None and self.score == "ablation" and is_language(task):
            text = "ablation holds all answers without each head; a language model's are too large, use gradient"
            raise SettingError("prune_heads.score", text)

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts by original layer: heads present before, kept, removed, and the scores of those present (none where
        `remove` named them)."""
        from assay.core.model.edits import layout_of
        from assay.core.model.load import load_module

        present = self._present(layout_of(source.config, source.edits))
        module = load_module(source)
        scored = self.remove is None
        kept, scores = self._scored(present, module, source, ctx) if scored else (self._named(present), {})
        edits = save_edited(source, module, [self._edit(kept)], out)
        removed = {layer: [head for head in heads if head not in kept[layer]] for layer, heads in present.items()}
        return {"edits": edits, "present": present, "kept": kept, "removed": removed, "scores": scores}

    def tiny(self) -> Self:
        """A quarter of the heads instead of named ones, which a two-layer model may not have."""
        return self if self.remove is None else self.model_copy(update={"remove": None, "fraction": 0.25})

    def _scored(self, present: Heads, module: PreTrainedModel, source: Artifact, ctx: Context) -> tuple[Heads, Scores]:
        assert self.fraction is not None
        subject = scoring_subject(
            "heads" if self.attention == "self" else "cross_heads", module, source, ctx, self.rows
        )
        best, scores = choose_units(self.score, subject, self.fraction, self.scope == "layer", self.iterations)
        chosen = [each for each, size in zip(best, subject.sizes, strict=True) if size]
        values = [each.tolist() for each in scores if len(each)]
        kept = {layer: [heads[i] for i in stay] for (layer, heads), stay in zip(present.items(), chosen, strict=True)}
        return kept, dict(zip(present, values, strict=True))

    def _present(self, layout: Layout) -> Heads:
        """Heads of each layer that has this attention; SettingError where none has."""
        units = "heads" if self.attention == "self" else "cross"
        found = {layer.index: list(getattr(layer, units)) for layer in layout.layers if getattr(layer, units)}
        if not found:
            raise SettingError("prune_heads.attention", "no layer of this model attends to an encoder")
        return found

    def _edit(self, kept: Heads) -> KeepHeads:
        from assay.core.model.edits import KeepCrossHeads, KeepHeads

        return (KeepHeads if self.attention == "self" else KeepCrossHeads)(heads=kept)

    def _named(self, present: Heads) -> Heads:
        """What `remove` leaves in every layer."""
        remove = self.remove or {}
        if absent := sorted(set(remove) - set(present)):
            raise SettingError("prune_heads.remove", not_among("layers present", absent, list(present)))
        for layer, heads in remove.items():
            if absent := sorted(set(heads) - set(present[layer])):
                raise SettingError("prune_heads.remove", not_among(f"heads of layer {layer}", absent, present[layer]))
            if set(heads) == set(present[layer]):
                raise SettingError("prune_heads.remove", f"layer {layer} would lose its last head")
        return {layer: [h for h in heads if h not in remove.get(layer, [])] for layer, heads in present.items()}
