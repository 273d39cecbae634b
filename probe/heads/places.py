"""Where the tokens of a row stand: those of a text in a line, the patches of an image in a plane.

In a plane the patch above is as near as the one to the left, though in reading order it is a whole row of patches away.
The tokens that a model of images puts before its patches stand nowhere, so nothing is near them or far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor

Step = tuple[int, ...]
REACH, REACH_IN_PLANE = 5, 2  # how far off a head may look to be positional


@dataclass(frozen=True)
class Places:
    """`own` tokens without a place, then those of a grid of `sizes`, the last dimension running fastest."""

    own: int
    sizes: tuple[int, ...]

    @cached_property
    def coordinates(self) -> Tensor:
        """int64 [placed tokens, dimensions]."""
        axes = [torch.arange(size) for size in self.sizes]
        return torch.cartesian_prod(*axes).reshape(-1, len(self.sizes))

    def distances(self) -> Tensor:
        """float64 [placed tokens, placed tokens], Euclidean."""
        at = self.coordinates.double()
        return torch.linalg.vector_norm(at[:, None] - at, dim=-1)

    def pairs(self, step: Step) -> tuple[Tensor, Tensor]:
        """(tokens, those one `step` away), int64 [pairs] both, as positions in the row; tokens that have none there are
        left out."""
        there = self.coordinates + torch.tensor(step)
        inside = ((there >= 0) & (there < torch.tensor(self.sizes))).all(1)
        reached = torch.zeros(int(inside.sum()), dtype=torch.int64)
        for size, along in zip(self.sizes, there[inside].unbind(1), strict=True):
            reached = reached * size + along
        return self.own + inside.nonzero()[:, 0], self.own + reached


@dataclass(frozen=True)
class Line:
    """Texts. `steps`: names of single steps;  `offsets`: those at which a head may be positional."""

    token: ClassVar[str] = "token"
    unit: ClassVar[str] = "tokens"
    steps: ClassVar[Mapping[str, Step]] = {"same": (0,), "previous": (-1,), "next": (1,)}
    offsets: ClassVar[tuple[Step, ...]] = tuple((step,) for step in range(-REACH, REACH + 1))

    def places(self, tokens: int) -> Places:
        """Those of a row of so many tokens."""
        return Places(0, (tokens,))


@dataclass(frozen=True)
class Plane:
    """Images of `height` x `width` patches behind `own` tokens of the model; otherwise as `Line`, steps are (down,
    right)."""

    own: int
    height: int
    width: int

    token: ClassVar[str] = "patch"
    unit: ClassVar[str] = "patches"
    steps: ClassVar[Mapping[str, Step]] = {
        "same": (0, 0), "left": (0, -1), "right": (0, 1), "above": (-1, 0), "below": (1, 0),
    }  # fmt: skip
    offsets: ClassVar[tuple[Step, ...]] = tuple(product(range(-REACH_IN_PLANE, REACH_IN_PLANE + 1), repeat=2))

    def places(self, tokens: int) -> Places:
        """The same of every image."""
        return Places(self.own, (self.height, self.width))


def standing_of(encoder: Any) -> Line | Plane:
    """How the tokens stand that `encoder`, of texts or of images, gives a model."""
    from assay.core.model.images import ImageEncoder

    return Plane(encoder.class_tokens, *encoder.grid) if isinstance(encoder, ImageEncoder) else Line()
