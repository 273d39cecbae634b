"""What the loss becomes without the unit: leave-one-out, the plain meaning of what the gradient score estimates.

Michel et al. 2019 (section 3.2) switch heads off one by one on the test set; here it is the rows given. Each unit costs
a pass from its layer up (`assay/core/model/ablate.py`), so it is many times slower than `gradient`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from assay.core.model.ablate import Cut, Part, logits_without
from compress.losses.task import task_loss
from compress.scores.subject import Subject


def score(subject: Subject) -> list[Tensor]:
    """Mean loss without each unit less that of the whole model, [units] a layer; below 0 where it is better without.

    InputError for a family of two stacks or of shared layers, and for cross-attention heads."""
    part: Part = "neurons" if subject.unit == "neurons" else "heads"
    cuts = [Cut(layer, part, (unit,)) for layer, size in enumerate(subject.sizes) for unit in range(size)]
    change, rows = torch.zeros(len(cuts)), 0
    for batch, inputs in zip(subject.batches, subject.inputs(), strict=True):
        labels = batch["labels"]
        whole, without = logits_without(subject.module, subject.family, inputs, cuts)
        losses = torch.stack([task_loss(each, labels, subject.task) for each in (whole, *without)])
        change += (losses[1:] - losses[0]) * len(labels)
        rows += len(labels)
    return list((change / rows).split(subject.sizes))
