"""Repeats are told by the original layer that they repeat, however the model was edited before and after."""

from __future__ import annotations

from pathlib import Path

from transformers import BertConfig

from assay.core.artifact import Artifact
from assay.core.model.edits import DuplicateLayers, Edit, KeepLayers, ShareLayers, layout_of
from assay.core.model.repeats import repeats_of


def found(depth: int, *edits: Edit) -> dict[int, int]:
    """`depth`: layers after the edits."""
    artifact = Artifact(Path(), "key", "torch", "text-classification", "bert", [edit.to_json() for edit in edits])
    vars(artifact)["config"] = BertConfig(num_hidden_layers=depth).to_dict()
    return repeats_of(artifact)


def test_without_repeats_there_are_none_and_with_them_each_is_told_by_its_layer() -> None:
    assert found(2, KeepLayers([0, 3], of=4)) == {}
    assert found(7, DuplicateLayers([1, 3], times=2, of=4), KeepLayers([0, 1, 4, 3, 5, 2], of=6),
                 DuplicateLayers([0], times=2, of=6)) == {4: 1, 5: 3, 6: 0}  # fmt: skip


def test_a_repeat_of_a_repeat_is_one_of_the_original_and_numbers_go_by_the_order_of_running() -> None:
    """Of layers 0, 1, its repeat 3, 2 both 2 and 3 are run again: 3 comes first and its repeat is 4."""
    edits = DuplicateLayers([1], times=2, of=3), DuplicateLayers([2, 3], times=2, of=4)
    assert found(6, *edits) == {3: 1, 4: 1, 5: 2}
    layers = layout_of(BertConfig(num_hidden_layers=6).to_dict(), [edit.to_json() for edit in edits]).layers
    assert [layer.index for layer in layers] == [0, 1, 3, 4, 2, 5]


def test_layers_that_share_weights_are_no_repeats_of_each_other() -> None:
    assert found(5, ShareLayers([[0, 1]]), KeepLayers([0, 1, 3], of=4), DuplicateLayers([1], times=3, of=3)) == {
        4: 1, 5: 1,
    }  # fmt: skip
