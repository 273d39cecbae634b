"""Edits that tests write for one stack of four layers, made to fit every family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.core.model.anatomy import Family
from assay.core.model.edits import (
    Edit,
    FactoriseEmbedding,
    KeepHeads,
    KeepLayers,
    KeepNeurons,
    LowRank,
    ShareLayers,
)

LAYERS = range(4)


def fit(edits: Sequence[Edit], family: Family) -> list[Edit]:
    """The same edits: with two stacks of two layers each, `of` counts both; where all layers share their weights, what
    the edit says of its first layer is said of all of them, and they are not shared again; where one map holds queries,
    keys and values, it stands for each of them; images have no table of tokens to factor."""
    present, fitted = list(LAYERS), []
    for edit in edits:
        if isinstance(edit, KeepLayers):
            depths = [sum(layer in half for layer in present) for half in (LAYERS[:2], LAYERS[2:])]
            keep = list(edit.keep)
            if len(family.stacks) > 1 and max(keep) < 2:  # a decoder keeps a layer
                keep[-1] = max(present)
            fitted.append(KeepLayers(keep, of=depths if len(family.stacks) > 1 else len(present)))
            present = keep
        elif family.shares_layers and isinstance(edit, KeepHeads):
            fitted.append(replace(edit, heads=dict.fromkeys(present, next(iter(edit.heads.values())))))
        elif family.shares_layers and isinstance(edit, KeepNeurons):
            fitted.append(replace(edit, neurons=dict.fromkeys(present, next(iter(edit.neurons.values())))))
        elif isinstance(edit, LowRank):
            fused = any(stack.attention.qkv for stack in family.stacks)
            ranks = {
                layer: {"qkv" if fused and name in ("q", "k", "v") else name: rank for name, rank in maps.items()}
                for layer, maps in edit.ranks.items()
            }
            fitted.append(
                LowRank(dict.fromkeys(present, next(iter(ranks.values()))) if family.shares_layers else ranks)
            )
        elif (family.shares_layers and isinstance(edit, ShareLayers)) or (
            family.reads_images and isinstance(edit, FactoriseEmbedding)
        ):
            continue
        else:
            fitted.append(edit)
    return fitted
