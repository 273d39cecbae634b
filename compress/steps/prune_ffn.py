"""Remove feed-forward neurons that matter least, physically, by gradient importance or by the size of activations.

The gradient score of a neuron is | d loss / d mask | with the mask on its activation, i.e. |activation x gradient|
summed over tokens (Molchanov et al. 2017). Does not retrain: add `finetune` or `distil` after.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from compress.pruning import choose_units, save_edited, scoring_subject
from compress.step import Context, Step


class PruneFfn(Step):
    """`fraction` of the neurons goes: the same share in every layer, or the lowest of the whole model with
    `scope: global`. What is kept in a layer is rounded up to `multiple_of`, which fast matrix kernels want.

    score: sensitivity of the loss (`gradient`), its second-order rise (`fisher`), mean absolute activation
    (`activation`), or `random` as a control. `iterations` removes in that many equal parts and scores anew before each.
    `rows` training rows are scored."""

    fraction: float = Field(gt=0, lt=1)
    score: Literal["gradient", "fisher", "activation", "random"] = "gradient"
    iterations: int = Field(default=1, ge=1)
    scope: Literal["global", "layer"] = "layer"
    multiple_of: int = Field(default=8, ge=1)
    rows: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _worth_repeating(self) -> Self:
        if self.iterations > 1 and self.score == "random":
            raise ValueError(f"iterations {self.iterations}: random scores do not change when neurons go; use 1")
        return self

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: kept_neurons by original layer, and of how many."""
        from assay.core.model.edits import KeepNeurons, layout_of
        from assay.core.model.load import load_module

        present = {layer.index: layer.neurons for layer in layout_of(source.config, source.edits).layers}
        module = load_module(source)
        subject = scoring_subject("neurons", module, source, ctx, self.rows)
        best, _ = choose_units(
            self.score, subject, self.fraction, self.scope == "layer", self.iterations, self.multiple_of
        )
        kept = {layer: [units[i] for i in chosen] for (layer, units), chosen in zip(present.items(), best, strict=True)}
        edits = save_edited(source, module, [KeepNeurons(neurons=kept)], out)
        counts = {layer: len(units) for layer, units in kept.items()}
        return {"edits": edits, "kept_neurons": counts, "of": max(map(len, present.values()))}
