"""Groups of layers get one set of weights between them (Lan et al. 2020, "ALBERT", section 3.1).

The model runs as many layers as before, so it is as slow, and holds fewer. ALBERT is trained so from the start; here
trained layers are put together, which loses much: does not retrain, add `distil` after, which then trains the one set.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from assay.core.errors import InputError, SettingError
from compress.pruning import not_among, save_edited
from compress.step import Context, Step

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from assay.core.model.edits import ShareLayers as ShareEdit
    from assay.core.model.layout import Layout

Start = Literal["first", "last", "mean"]


class ShareLayers(Step):
    """`groups` of layers by original numbers, [[0, 1, 2], [3, 4, 5]]; or `every` so many layers that follow each other.

    start: the weights that a group starts from, those of its `first` or `last` layer, or their `mean`."""

    groups: list[list[int]] | None = Field(default=None, min_length=1)
    every: int | None = Field(default=None, ge=2)
    start: Start = "first"

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.groups is None) == (self.every is None):
            raise ValueError("give either groups or every")
        return self

    def check(self, layout: Layout, teacher: Layout | None) -> Layout:
        """With the groups."""
        return self._edit_and_layout(layout)[1]

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: groups, and parameters of the model before and after, shared ones counted once."""
        from assay.core.model.edits import layout_of
        from assay.core.model.load import load_module

        layout = layout_of(source.config, source.edits)
        edit, _ = self._edit_and_layout(layout)
        module = load_module(source)
        facts = {"groups": [list(group) for group in edit.groups], "parameters_before": module.num_parameters()}
        _start_from(self.start, module, layout, edit)
        edits = save_edited(source, module, [edit], out)
        return {"edits": edits, **facts, "parameters_after": module.num_parameters()}

    def tiny(self) -> Self:
        """Both layers of a stack of two."""
        return self.model_copy(update={"groups": None, "every": 2})

    def _edit_and_layout(self, layout: Layout) -> tuple[ShareEdit, Layout]:
        """SettingError where the groups do not fit the layers present."""
        from assay.core.model.edits import ShareLayers as ShareEdit

        setting = "share_layers.every" if self.groups is None else "share_layers.groups"
        present = [layer.index for layer in layout.layers]
        groups = self._runs(layout) if self.groups is None else self.groups
        if absent := sorted({number for group in groups for number in group} - set(present)):
            raise SettingError(setting, not_among("layers present", absent, present))
        if not groups:
            raise SettingError(setting, f"{self.every}: no stack of this model has two layers to share")
        try:
            edit = ShareEdit(groups)
            return edit, edit.apply(layout)
        except InputError as error:
            raise SettingError(setting, str(error).removeprefix("share_layers: ")) from None

    def _runs(self, layout: Layout) -> list[list[int]]:
        """`every` layers that follow each other in a stack; what is left at its end are fewer, but not one alone."""
        assert self.every is not None
        found = []
        for stack in range(len(layout.depths)):
            numbers = [layer.index for layer in layout.layers if layer.stack == stack]
            found += [numbers[start : start + self.every] for start in range(0, len(numbers), self.every)]
        return [run for run in found if len(run) > 1]


def _start_from(start: Start, module: PreTrainedModel, layout: Layout, edit: ShareEdit) -> None:
    """Write into the first layer of each group what the group shall start from; the edit gives it to the others."""
    import torch

    from assay.core.model.anatomy import family_of
    from assay.core.model.blocks import modules_of

    numbers = [layer.index for layer in layout.layers]
    by_number = dict(zip(numbers, modules_of(module, family_of(module.config.model_type)), strict=True))
    with torch.no_grad():
        for group in edit.groups:
            layers = [dict(by_number[number].named_parameters()) for number in group]
            for name, parameter in layers[0].items():
                found = [layer[name] for layer in layers if name in layer]  # T5's first alone has a table of positions
                chosen = {"first": found[:1], "last": found[-1:], "mean": found}[start]
                parameter.copy_(torch.stack([each.float() for each in chosen]).mean(0))
