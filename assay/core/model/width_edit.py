"""The edit that makes the states between layers narrower, in a basis of their own (Ashkboos et al. 2024, "SliceGPT",
https://arxiv.org/abs/2401.15024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from assay.core.errors import InputError
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edit import Edit
from assay.core.model.layout import Layout


@dataclass(frozen=True)
class ReduceWidth(Edit):
    """The states have `width` coordinates where they had `of`. On a model with weights they are those in the basis that
    was given to it by `give_basis`; as many as before are a mere rotation, which changes no output."""

    width: int
    of: int
    kind: ClassVar[str] = "reduce_width"
    cuts: ClassVar[bool] = False

    def apply(self, layout: Layout) -> Layout:
        """InputError for another width, fewer than two coordinates, factors of a higher rank than is left, and a family
        whose states cannot be told from the rest."""
        check_narrowing(layout)
        if self.of != layout.width:
            raise InputError(f"{self.kind}: made for states of width {self.of}, these have {layout.width}")
        if not 2 <= self.width <= self.of:
            raise InputError(f"{self.kind}: width {self.width} is not in 2-{self.of}")
        if (rank := layout.embedding_rank or 0) > self.width:
            text = f"the embedding has rank {rank}, more than width {self.width}; factorise after"
            raise InputError(f"{self.kind}: {text}")
        for layer in layout.layers:
            for name, rank in layer.ranks.items():
                if rank > self.width:
                    text = f"layer {layer.index}: {name} has rank {rank}, more than width {self.width}; factorise after"
                    raise InputError(f"{self.kind}: {text}")
        return replace(layout, width=self.width, rotations=layout.rotations + 1)

    def to_json(self) -> dict[str, Any]:
        return {"edit": self.kind, "width": self.width, "of": self.of}


def check_narrowing(layout: Layout) -> None:
    """InputError where the family's anatomy does not say where its states are written and read."""
    known = sorted(name for name, family in FAMILIES.items() if family.residual is not None)
    if layout.family not in known:
        raise InputError(f"reduce_width: works for {', '.join(known)}, not for {layout.family or 'this family'}")
