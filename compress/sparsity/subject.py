"""What a method that prunes at once is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from compress.sparsity.choose import Selection
from compress.sparsity.matrices import Matrix


@dataclass(frozen=True)
class Subject:
    """A live model in evaluation mode. `batches` hold the model's inputs, for methods that look at rows. `block` and
    `damping` are those of sparsegpt, `seed` is that of the job."""

    module: nn.Module
    matrices: Sequence[Matrix]
    selection: Selection
    seed: int
    batches: Sequence[dict[str, Tensor]] = ()
    block: int = 128
    damping: float = 0.01

    def zero(self, matrices: Sequence[Matrix], scores: Sequence[Tensor]) -> None:
        """Set the weights with the lowest scores to zero, in place."""
        for each, gone in zip(matrices, self.selection.gone(matrices, scores), strict=True):
            each.weight.masked_fill_(gone, 0)
