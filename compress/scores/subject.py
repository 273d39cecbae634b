"""What a score looks at: a live model, the kind of its units, and rows to run it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from assay.core.model.anatomy import Family

Unit = Literal["heads", "neurons"]


@dataclass(frozen=True)
class Subject:
    """`sizes` are the units of each present layer. `batches` hold the model's inputs and `labels`.

    `separators` are the ids of the token that ends a text; `seed` is that of the job."""

    module: PreTrainedModel
    family: Family
    unit: Unit
    sizes: list[int]
    batches: list[dict[str, Tensor]]
    task: str
    separators: list[int]
    seed: int

    def inputs(self) -> list[dict[str, Tensor]]:
        """The batches without labels."""
        return [{name: value for name, value in batch.items() if name != "labels"} for batch in self.batches]
