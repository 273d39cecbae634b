"""How much each layer does: by how far it moves the hidden states, or by the loss without it.

contribution: Sajjad et al. 2020 (section 3.4), who compare the [CLS] states before and after a layer and drop those
layers whose cosine is above a threshold; here a number of layers is given, and those with the highest cosine go.
block_influence: Men et al. 2024 (ShortGPT, eq. 1), 1 - cosine averaged over all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from assay.core.model.ablate import Cut, layers_replaced, logits_without
from assay.core.model.anatomy import Family, family_of
from assay.core.model.blocks import modules_of
from assay.core.model.outputs import hidden_states_of, real_tokens
from compress.losses.task import task_loss

Batches = Sequence[dict[str, Tensor]]


def contribution(module: nn.Module, batches: Batches) -> list[float]:
    """1 - cosine between a layer's input and output at the token the classifier reads (the first, or the last real one
    of a decoder), mean over rows; one figure a present layer."""
    return _moved(module, batches, one_only=True)


def block_influence(module: nn.Module, batches: Batches) -> list[float]:
    """1 - cosine between a layer's input and output, mean over the real tokens of all rows."""
    return _moved(module, batches, one_only=False)


def greedy(module: nn.Module, family: Family, batches: Batches, task: str, count: int) -> tuple[list[int], list[float]]:
    """(positions of `count` layers to drop in the order they go, score of each layer).

    Each time the layer goes without which the mean loss is lowest, given those that went before; that loss is its
    score. The scores of the layers that stay are the losses without them in the last round; 0 where there was none."""
    blocks = modules_of(module, family)
    present, gone, scores = list(range(len(blocks))), [], [0.0] * len(blocks)
    for _ in range(count):
        with layers_replaced(module, family, [blocks[position] for position in present]):
            losses = _losses_without_each(module, family, batches, task, len(present))
        for position, loss in zip(present, losses, strict=True):
            scores[position] = loss
        gone.append(present.pop(losses.index(min(losses))))
    return gone, scores


def _losses_without_each(module: nn.Module, family: Family, batches: Batches, task: str, depth: int) -> list[float]:
    cuts = [Cut(layer, "layer") for layer in range(depth)]
    total, rows = torch.zeros(depth), 0
    for batch in batches:
        labels = batch["labels"]
        _, logits = logits_without(module, family, _inputs(batch), cuts)
        total += torch.stack([task_loss(each, labels, task) for each in logits]) * len(labels)
        rows += len(labels)
    return (total / rows).tolist()


@torch.inference_mode()
def _moved(module: nn.Module, batches: Batches, one_only: bool) -> list[float]:
    found: list[Tensor] = []
    last = family_of(module.config.model_type).reads_last  # type: ignore[union-attr, arg-type]
    for batch in batches:
        states = hidden_states_of(module(**_inputs(batch), output_hidden_states=True))  # each [batch, tokens, width]
        mask = real_tokens(batch, states[0])
        turned = torch.stack([1 - F.cosine_similarity(*pair, dim=-1) for pair in pairwise(states)])
        read = mask.shape[1] - 1 - mask.int().flip(1).argmax(1) if last else torch.zeros(len(mask), dtype=torch.int64)
        found.append(turned[:, range(len(mask)), read] if one_only else turned[:, mask])  # [layers, rows or tokens]
    return torch.cat(found, dim=1).mean(1).tolist()


def _inputs(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in batch.items() if name != "labels"}
