"""What a score looks at: a live model, the kind of its units, and rows to run it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from assay.core.model.blocks import blocks_of
from assay.core.model.masks import mask_cross_heads, mask_heads, mask_neurons

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from assay.core.model.anatomy import Family

Unit = Literal["heads", "cross_heads", "neurons"]
MASKS = {"heads": mask_heads, "cross_heads": mask_cross_heads, "neurons": mask_neurons}


@dataclass(frozen=True)
class Subject:
    """`sizes` are the units of each present layer; `groups` the positions of all layers, those of the same weights
    together (empty where each has its own). `batches` hold the model's inputs and `labels`. `separators` are the ids of
    the token that ends a text; `seed` is the job's."""

    module: PreTrainedModel
    family: Family
    unit: Unit
    sizes: list[int]
    batches: list[dict[str, Tensor]]
    task: str
    separators: list[int]
    seed: int
    groups: Sequence[Sequence[int]] = ()

    def outputs(self) -> list[nn.Module]:
        """The maps whose inputs are the units, of the layers that have such units."""
        blocks = blocks_of(self.module, self.family)
        if self.unit == "neurons":
            return [block.ffn_out for block in blocks]
        attentions = [(block, block.attention(self.unit == "cross_heads")) for block in blocks]
        return [block.part(names.o) for block, names in attentions if names is not None]

    def inputs(self) -> list[dict[str, Tensor]]:
        """The batches without labels."""
        return [{name: value for name, value in batch.items() if name != "labels"} for batch in self.batches]
