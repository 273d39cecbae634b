"""A classifier with one hidden layer, the larger probe of Hewitt and Liang 2019 (their MLP-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

EPOCHS, STEPS = 10, 300  # whichever is more
BATCH = 128
RATE = 3e-3
DECAY = 1e-2


@dataclass(frozen=True)
class Mlp:
    """classes: [k], ascending;  inner: [hidden, width + 1], outer: [k, hidden + 1], the last columns are the biases"""

    classes: np.ndarray
    inner: Tensor
    outer: Tensor

    def predict(self, features: Tensor) -> np.ndarray:
        """[rows, width] -> the most probable class of each row, [rows]."""
        return self.classes[_logits(features, self.inner, self.outer).argmax(1).numpy()]


def fit_mlp(features: Tensor, labels: np.ndarray, hidden: int, seed: int) -> Mlp:
    """Ten epochs of AdamW, or 300 steps where that is more, on standardised features [rows, width]. The same seed gives
    the same weights.

    For threads side by side: nothing but a generator of its own is drawn from."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    classes, coded = np.unique(labels, return_inverse=True)
    targets = torch.from_numpy(coded)
    inner = _start(hidden, features.shape[1], generator)
    outer = _start(len(classes), hidden, generator)
    optimizer = torch.optim.AdamW([inner, outer], lr=RATE, weight_decay=DECAY)
    for _ in range(max(EPOCHS, -(-STEPS * BATCH // len(features)))):
        for rows in torch.randperm(len(features), generator=generator).split(BATCH):
            loss = torch.nn.functional.cross_entropy(_logits(features[rows], inner, outer), targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return Mlp(classes, inner.detach(), outer.detach())


def _start(outputs: int, inputs: int, generator: torch.Generator) -> Tensor:
    """He et al. 2015: deviations of sqrt(2 / inputs), biases of 0."""
    import torch

    weights = torch.randn(outputs, inputs, generator=generator) * (2 / inputs) ** 0.5
    return torch.cat([weights, torch.zeros(outputs, 1)], 1).requires_grad_()


def _logits(features: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
    hidden = (features @ inner[:, :-1].T + inner[:, -1]).relu()
    return hidden @ outer[:, :-1].T + outer[:, -1]
