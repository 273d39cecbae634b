"""What the pruning steps share: rows to score on, and saving a model together with its new edits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.artifact import Artifact
from compress.step import Context

if TYPE_CHECKING:
    from torch import Tensor, nn

    from assay.core.edits import Edit


def scoring_batches(source: Artifact, ctx: Context, rows: int, batch_size: int) -> Iterator[dict[str, Tensor]]:
    """Batches of a seeded sample of the training rows: the model's inputs and `labels`."""
    import torch

    from assay.core.load import load_tokenizer
    from assay.core.predict import Encoder

    train = ctx.data.train
    sample = np.random.default_rng(ctx.seed).permutation(len(train))[:rows]
    chosen = train.take(sample)
    encoder = Encoder(load_tokenizer(source), ctx.data.max_length)
    for index, inputs in encoder.batches(chosen.texts, batch_size):
        batch = {name: torch.from_numpy(value) for name, value in inputs.items()}
        yield batch | {"labels": torch.from_numpy(chosen.labels[index])}


def save_edited(source: Artifact, module: nn.Module, edits: list[Edit], out: Path) -> list[dict[str, Any]]:
    """Apply `edits` to the live module, save it under `out`, and return the whole list to replay on loading."""
    from assay.core.anatomy import family_of
    from assay.core.edits import apply_edits
    from assay.core.load import load_tokenizer, save_module

    apply_edits(module, edits, family_of(source.family))
    save_module(module, out, load_tokenizer(source))
    return [*source.edits, *(edit.to_json() for edit in edits)]
