"""What anisotropy, isotropy and intrinsic dimension need of one model's vectors, summed as they stream by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from probe.geometry.anisotropy import mean_cosine
from probe.geometry.intrinsic_dimension import two_nn
from probe.geometry.isotropy import iso_score


class Cloud:
    """At most `keep` vectors of each layer are kept for the distances of their neighbours, `kept` of them so far; all
    `n` are counted in the rest."""

    def __init__(self, keep: int) -> None:
        self.keep, self.n, self.kept = keep, 0, 0
        self.layers: list[_Layer] = []

    def add(self, layers: Sequence[torch.Tensor], lone: torch.Tensor) -> None:
        """One [rows, width] a layer. `lone` are the rows that may be kept: one of each text, since tokens of one text
        are neighbours for that reason alone."""
        if not len(layers[0]):
            return
        self.layers = self.layers or [_Layer(rows.mean(0)) for rows in layers]
        chosen = lone[: self.keep - self.kept]
        self.n += len(layers[0])
        self.kept += len(chosen)
        for layer, rows in zip(self.layers, layers, strict=True):
            layer.add(rows, rows[chosen])

    def figures(self) -> list[dict[str, Any]]:
        """anisotropy, isotropy and intrinsic_dimension of each layer."""
        return [layer.figures(self.n) for layer in self.layers]


class _Layer:
    def __init__(self, shift: torch.Tensor) -> None:
        self.shift, self.pointing = shift, 0
        self.total = torch.zeros(len(shift), dtype=torch.float64)
        self.directions = torch.zeros(len(shift), dtype=torch.float64)
        self.gram = torch.zeros(len(shift), len(shift))
        self.kept: list[torch.Tensor] = []

    def add(self, rows: torch.Tensor, kept: torch.Tensor) -> None:
        shifted = rows - self.shift
        self.total += shifted.double().sum(0)
        self.gram.addmm_(shifted.T, shifted)
        self.directions += torch.nn.functional.normalize(rows, dim=1).double().sum(0)
        self.pointing += int(rows.any(dim=1).sum())  # a zero vector has no direction
        self.kept.append(kept)

    def figures(self, n: int) -> dict[str, float | None]:
        scatter = self.gram.double() - torch.outer(self.total, self.total) / n
        return {
            "anisotropy": mean_cosine(self.directions, self.pointing),
            "isotropy": iso_score(scatter),
            "intrinsic_dimension": two_nn(torch.cat(self.kept)),
        }
