"""Make the states between layers narrower: they are rotated to their principal components, and the last of these go
(Ashkboos et al. 2024, "SliceGPT: Compress Large Language Models by Deleting Rows and Columns").

One rotation serves the whole model, where the paper has one a block and a matrix on each skip connection between two;
see `assay/core/model/narrow.py`. Does not retrain: add `distil` or `finetune` after.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from assay.core.errors import InputError, SettingError
from compress.pruning import save_edited, scoring_batches
from compress.step import Context, Step

if TYPE_CHECKING:
    from torch import Tensor

    from assay.core.model.edits import ReduceWidth as WidthEdit
    from assay.core.model.layout import Layout
    from compress.width.moments import Seen


class ReduceWidth(Step):
    """The states get `width` coordinates, or lose `fraction` of theirs, those that stay rounded up to `multiple_of`.
    The components are those of all layers together on `rows` training rows."""

    width: int | None = Field(default=None, ge=2)
    fraction: float | None = Field(default=None, gt=0, lt=1)
    rows: int = Field(default=256, ge=1)
    multiple_of: int = Field(default=8, ge=1)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.width is None) == (self.fraction is None):
            raise ValueError("give either width or fraction")
        return self

    def check(self, layout: Layout, teacher: Layout | None) -> Layout:
        """With the states as narrow as they get."""
        return self._edit(layout).apply(layout)

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: width, of; variance_kept {layer: share of the squared length of its states, original numbers};
        parameters before and after, of the whole model."""
        from assay.core.measure.weights_count import count_module
        from assay.core.model.anatomy import family_of
        from assay.core.model.edits import layout_of
        from assay.core.model.load import load_module
        from assay.core.model.narrow import give_basis
        from assay.core.model.residual import stream_of
        from compress.width.basis import leading_basis
        from compress.width.moments import state_moments

        layout = layout_of(source.config, source.edits)
        edit, module = self._edit(layout), load_module(source)
        before = count_module(module).parameters
        stream = stream_of(module, family_of(source.family))
        batches = scoring_batches(source, ctx, self.rows, batch_size=32)
        inputs = ({name: value for name, value in batch.items() if name != "labels"} for batch in batches)
        seen = state_moments(module, stream, inputs)
        basis = leading_basis([moment for each in seen for moment in each.moments], edit.width, stream.mean)
        give_basis(module, basis)
        edits = save_edited(source, module, [edit], out)
        return {
            "edits": edits,
            "width": edit.width,
            "of": edit.of,
            "variance_kept": _kept_by_layer(layout, seen, basis),
            "parameters_before": before,
            "parameters_after": count_module(module).parameters,
        }

    def tiny(self) -> Self:
        """Half of what is there."""
        return self.model_copy(update={"width": None, "fraction": 0.5, "rows": min(self.rows, 32)})

    def _edit(self, layout: Layout) -> WidthEdit:
        from assay.core.model.edits import ReduceWidth as WidthEdit
        from assay.core.model.width_edit import check_narrowing

        try:
            check_narrowing(layout)
        except InputError as error:
            raise SettingError("reduce_width", str(error).removeprefix("reduce_width: ")) from None
        if self.width is not None and self.width > layout.width:
            text = f"{self.width} is not in 2-{layout.width}, the width of the states"
            raise SettingError("reduce_width.width", text)
        return WidthEdit(self.width or self._rounded(layout.width), layout.width)

    def _rounded(self, width: int) -> int:
        assert self.fraction is not None
        kept = max(2, width - round(width * self.fraction))
        return min(width, -(-kept // self.multiple_of) * self.multiple_of)


def _kept_by_layer(layout: Layout, seen: list[Seen], basis: Tensor) -> dict[int, float]:
    """Mean share over what the norms of a layer read and give."""
    from compress.width.basis import share_kept

    shares: dict[int, list[float]] = {}
    for each in seen:
        for place in each.places:
            shares.setdefault(layout.layers[place].index, []).extend(share_kept(one, basis) for one in each.moments)
    return {number: sum(found) / len(found) for number, found in sorted(shares.items())}
