"""What the pruning steps share: rows to score on, and saving a model together with its new edits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from assay.core.artifact import Artifact
from compress.step import Context

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from assay.core.model.edits import Edit

Unit = Literal["heads", "neurons"]


def score_units(unit: Unit, module: PreTrainedModel, source: Artifact, ctx: Context, rows: int) -> list[Tensor]:
    """Gradient importance of the heads or neurons present, one tensor a present layer, unit L2 norm each.

    Heads are checked first: switching off a layer's heads must change the logits, or the scores would mean nothing."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.edits import layout_of
    from assay.core.model.masks import check_masking, mask_heads, mask_neurons
    from compress.scoring import sensitivity, unit_norm

    family = family_of(source.family)
    layers = layout_of(source.config, source.edits).layers
    sizes = [len(layer.heads if unit == "heads" else layer.neurons) for layer in layers]
    batches = list(scoring_batches(source, ctx, rows, batch_size=32))
    if unit == "heads":
        check_masking(module, family, {name: value for name, value in batches[0].items() if name != "labels"})
    mask = mask_heads if unit == "heads" else mask_neurons
    return unit_norm(sensitivity(module, batches, sizes, partial(mask, family=family), ctx.data.task))


def scoring_batches(source: Artifact, ctx: Context, rows: int, batch_size: int) -> Iterator[dict[str, Tensor]]:
    """Batches of a seeded sample of the training rows: the model's inputs and `labels`."""
    import torch

    from assay.core.model.load import load_tokenizer
    from assay.core.model.predict import Encoder

    train = ctx.data.train
    sample = np.random.default_rng(ctx.seed).permutation(len(train))[:rows]
    chosen = train.take(sample)
    encoder = Encoder(load_tokenizer(source), ctx.data.max_length)
    for index, inputs in encoder.batches(chosen.texts, batch_size):
        batch = {name: torch.from_numpy(value) for name, value in inputs.items()}
        yield batch | {"labels": torch.from_numpy(chosen.labels[index])}


def save_edited(source: Artifact, module: PreTrainedModel, edits: list[Edit], out: Path) -> list[dict[str, Any]]:
    """Apply `edits` to the live module, save it under `out`, and return the whole list to replay on loading."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.edits import apply_edits
    from assay.core.model.load import load_tokenizer, save_module

    apply_edits(module, edits, family_of(source.family))
    save_module(module, out, load_tokenizer(source))
    return [*source.edits, *(edit.to_json() for edit in edits)]
