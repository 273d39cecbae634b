"""Predictors: texts in, logits out, the same for torch and ONNX; a white box adds what happens inside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from assay.core.artifact import Artifact

if TYPE_CHECKING:
    import torch


@runtime_checkable
class Predictor(Protocol):
    """`artifact` is the model on disk."""

    artifact: Artifact

    def logits(self, texts: Sequence[str], batch_size: int = 32, pad_to: int | None = None) -> np.ndarray:
        """float32 [n, labels] in the order of `texts`. Rows are batched by length and padded to the longest of their
        batch, or to `pad_to` tokens."""
        ...


@dataclass(frozen=True)
class StateBatch:
    """What the model did with a few rows. Arrays are float32 torch tensors without gradient.

    rows:       positions in the list of texts that was given
    input_ids:  [batch, tokens]
    mask:       [batch, tokens] bool, False on padding
    special:    [batch, tokens] bool, True on separators ([CLS], [SEP], <s>, ...)
    hidden:     one [batch, tokens, width] a layer, the embedding output first
    attentions: one [batch, heads, tokens, tokens] a layer (heads may differ by layer); empty list if not asked for
    logits:     [batch, labels]
    """

    rows: list[int]
    input_ids: torch.Tensor
    mask: torch.Tensor
    special: torch.Tensor
    hidden: list[torch.Tensor]
    attentions: list[torch.Tensor]
    logits: torch.Tensor


@runtime_checkable
class WhiteBox(Predictor, Protocol):
    """A torch model. `layers` are the original layer numbers still present; `heads[i]` the original head numbers of
    the i-th present layer."""

    layers: tuple[int, ...]
    heads: tuple[tuple[int, ...], ...]

    def states(
        self, texts: Sequence[str], batch_size: int = 32, attentions: bool = False
    ) -> Iterator[StateBatch]:
        """Stream of batches sorted by length; nothing is kept, so memory does not grow with rows."""
        ...
