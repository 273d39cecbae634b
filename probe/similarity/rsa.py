"""Representational similarity analysis (Kriegeskorte et al. 2008).

Each layer is described by the dissimilarities of all pairs of a sample of rows, 1 - Pearson's correlation of their
vectors; two layers are alike when they rank the pairs alike (Spearman). Layers of any widths compare.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


def rsa_matrix(x: Sequence[torch.Tensor], y: Sequence[torch.Tensor]) -> list[list[float]]:
    """Spearman's correlation, in [-1, 1], of each layer of the first model (rows) with each of the second.

    One [rows, width] a layer, the same rows in all. NaN where a layer's dissimilarities are all equal."""
    ranks = [[_standardised_ranks(dissimilarities(layer)) for layer in layers] for layers in (x, y)]
    return np.clip(np.stack(ranks[0]) @ np.stack(ranks[1]).T, -1, 1).tolist()


def dissimilarities(vectors: torch.Tensor) -> np.ndarray:
    """[rows, width] -> [rows (rows - 1) / 2]: 1 - Pearson's correlation of each pair; 1 with a constant vector."""
    centred = vectors.double() - vectors.double().mean(1, keepdim=True)
    unit = torch.nn.functional.normalize(centred, dim=1)
    above = torch.triu_indices(len(unit), len(unit), offset=1)
    return 1 - (unit @ unit.T)[above[0], above[1]].numpy()


def _standardised_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, ties sharing their mean, less their mean and scaled to unit length; NaN where all are tied."""
    from scipy.stats import rankdata

    ranks = rankdata(values) - (len(values) + 1) / 2
    length = np.linalg.norm(ranks)
    return ranks / length if length else np.full(len(ranks), np.nan)
