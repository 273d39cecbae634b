"""The weights an earlier model of the chain had, under the zeros of the pruned one (Frankle & Carbin 2019).

What is found after training is tried from where training began: the lottery ticket. Rewinding to a model that had been
trained a little already (Frankle et al. 2020) is the same with a later one. The paper prunes the head at a lower rate;
here it is left out unless asked for, and comes back with its early weights like all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.artifact import Artifact
from assay.core.errors import SettingError
from compress.sparsity.matrices import Outside, prunable
from compress.step import Context
from compress.training import open_for_training

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def earlier_model(step: int, ctx: Context) -> Artifact:
    """The artifact after `step` steps of the whole chain, 0 being the pretrained model.

    SettingError where it is not before the model to prune, or has another shape."""
    source, before = ctx.lineage[-1], len(ctx.lineage) - 1
    if step >= before:
        allowed = f"0 to {before - 1}" if before else "nothing, since no step stands before this one"
        raise SettingError("prune_weights.rewind_to", f"{step} is not before the model to prune; allowed: {allowed}")
    found = ctx.lineage[step]
    if found.edits != source.edits:
        text = f"the model after step {step} has another shape; rewind to one after the last change of shape"
        raise SettingError("prune_weights.rewind_to", text)
    return found


def rewound(pruned: PreTrainedModel, also: list[Outside], earlier: Artifact, ctx: Context) -> PreTrainedModel:
    """The model that `earlier` was when training began from it, with zeros where `pruned` has them. A pretrained one
    gets the head that training gave it, drawn from the same seed."""
    module = open_for_training(earlier, ctx.data, ctx.seed)
    sides = (prunable(pruned, ctx.lineage[-1], also), prunable(module, earlier, also))
    for mask, each in zip(*sides, strict=True):
        each.weight.masked_fill_(mask.weight == 0, 0)
    return module
