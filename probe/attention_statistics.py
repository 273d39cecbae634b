"""Where attention heads look, as running sums: memory depends on layers and heads, not on the number of rows.

Only real tokens count, as queries and as keys, so the figures do not depend on how rows were padded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from assay.core.errors import AssayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.core.model.predict import StateBatch

SUM_TOLERANCE = 1e-3  # of a row of attention weights; half precision rounds 512 of them to about that


@dataclass
class AttentionSums:
    """`heads` is the number of heads of each layer. `sums` holds one float64 [heads, 3] a layer: entropy in nats,
    distance in tokens, weight on separators; each summed over `tokens` query tokens."""

    heads: Sequence[int]
    tokens: int = 0
    sums: list[torch.Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.sums = [torch.zeros(count, 3, dtype=torch.float64) for count in self.heads]

    def add(self, batch: StateBatch) -> None:
        """Count the rows of a batch; AssayError when attention is missing or its rows do not sum to 1."""
        check_heads(batch, self.heads)
        self.tokens += int(batch.mask.sum())
        for total, weights in zip(self.sums, batch.attentions, strict=True):
            total += sum_statistics(weights, batch.mask, batch.special)

    def means(self) -> list[torch.Tensor]:
        """One [heads, 3] a layer, means over all query tokens."""
        return [total / self.tokens for total in self.sums]


def sum_statistics(weights: torch.Tensor, mask: torch.Tensor, special: torch.Tensor) -> torch.Tensor:
    """Attention [batch, heads, tokens, tokens] with [batch, tokens] masks -> float64 [heads, 3], see AttentionSums."""
    row, query = mask.nonzero(as_tuple=True)
    keys = mask[row]  # [queries, tokens]
    real = weights.transpose(1, 2)[row, query].double()  # [queries, heads, tokens]
    real = real.masked_fill(~keys[:, None], 0)
    check_sums(real)
    distance = (query[:, None] - torch.arange(mask.shape[1])).abs()
    entropy = torch.special.entr(real).sum(-1)  # [queries, heads]
    away = (real * distance[:, None]).sum(-1)
    on_separators = (real * (special & mask)[row][:, None]).sum(-1)
    return torch.stack([entropy.sum(0), away.sum(0), on_separators.sum(0)], dim=1)


def check_heads(batch: StateBatch, heads: Sequence[int]) -> None:
    """AssayError unless a batch has attention of so many heads in each layer."""
    found = [0 if weights is None else weights.shape[1] for weights in batch.attentions]
    if found != list(heads):
        raise AssayError(f"attention of {found} heads a layer, not {list(heads)}: load with eager attention")


def check_sums(real: torch.Tensor) -> None:
    """AssayError unless weights [..., tokens] over real tokens sum to 1."""
    worst = (real.sum(-1) - 1).abs().max().item() if real.numel() else 0.0
    if not worst <= SUM_TOLERANCE:
        raise AssayError(f"attention over real tokens does not sum to 1 (off by {worst:.3g}): not attention weights")
