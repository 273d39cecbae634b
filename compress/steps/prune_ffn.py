"""Remove feed-forward neurons that matter least, physically, by the same gradient importance as heads.

The score of a neuron is | d loss / d mask | with the mask on its activation, i.e. |activation x gradient| summed over
tokens (Molchanov et al. 2017). Does not retrain: add `finetune` or `distil` after.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from assay.core.artifact import Artifact
from compress.pruning import save_edited, scoring_batches
from compress.step import Context, Step


class PruneFfn(Step):
    """`fraction` of the neurons goes: the same share in every layer, or the lowest of the whole model with
    `scope: global`. What is kept in a layer is rounded up to `multiple_of`, which fast matrix kernels want.

    `rows` training rows are scored."""

    fraction: float = Field(gt=0, lt=1)
    scope: Literal["global", "layer"] = "layer"
    multiple_of: int = Field(default=8, ge=1)
    rows: int = Field(default=256, ge=1)

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: kept_neurons by original layer, and of how many."""
        from assay.core.anatomy import family_of
        from assay.core.edits import KeepNeurons, layout_of, mask_neurons
        from assay.core.load import load_module
        from compress.scoring import keep_best, sensitivity, unit_norm

        neurons = {layer.index: list(layer.neurons) for layer in layout_of(source.config, source.edits).layers}
        module = load_module(source)
        masker = partial(mask_neurons, family=family_of(source.family))
        scores = sensitivity(
            module,
            scoring_batches(source, ctx, self.rows, 32),
            [len(present) for present in neurons.values()],
            lambda model, masks: masker(model, masks=masks),
            ctx.data.task,
        )
        positions = keep_best(unit_norm(scores), self.fraction, self.scope == "layer", self.multiple_of)
        kept = {i: [neurons[i][p] for p in best] for i, best in zip(neurons, positions, strict=True)}
        edits = save_edited(source, module, [KeepNeurons(neurons=kept)], out)
        return {
            "edits": edits,
            "kept_neurons": {i: len(units) for i, units in kept.items()},
            "of": max(map(len, neurons.values())),
        }
