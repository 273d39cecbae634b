"""Which weights go: the lowest scores of the whole model, a layer, a matrix or a row, or all but N of every M inputs.

Counts are exact: of equal scores the first go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from assay.core.errors import InputError
from compress.sparsity.matrices import Matrix

Scope = Literal["global", "layer", "matrix", "row"]


@dataclass(frozen=True)
class Selection:
    """`fraction` of the weights goes, lowest scores first, compared within `scope`; or of every `pattern[1]` inputs
    that stand side by side, the `pattern[0]` best stay."""

    fraction: float | None = None
    scope: Scope = "global"
    pattern: tuple[int, int] | None = None

    def gone(self, matrices: Sequence[Matrix], scores: Sequence[Tensor]) -> list[Tensor]:
        """True where a weight goes; `scores` and the result are [out, in], one a matrix. InputError where a matrix
        has no whole number of groups."""
        if self.pattern is not None:
            check_groups(matrices, self.pattern[1])
            return [off_pattern(each, *self.pattern) for each in scores]
        assert self.fraction is not None
        if self.scope == "row":
            return [lowest_of_rows(each, self.fraction) for each in scores]
        return lowest_of_groups(scores, groups_of(matrices, self.scope), self.fraction)


def groups_of(matrices: Sequence[Matrix], scope: Scope) -> list[Hashable]:
    """A key for each matrix, equal for those whose weights are compared with each other; not for `row`."""
    keys: dict[str, list[Hashable]] = {
        "global": [None] * len(matrices),
        "layer": [each.group for each in matrices],
        "matrix": [each.name for each in matrices],
    }
    return keys[scope]


def lowest_of_groups(scores: Sequence[Tensor], groups: Sequence[Hashable], fraction: float) -> list[Tensor]:
    """True at the lowest `fraction` of the scores of each group of tensors; the groups are told by equal keys."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        members[group].append(place)
    found: dict[int, Tensor] = {}
    for places in members.values():
        flat = torch.cat([scores[place].flatten() for place in places])
        parts = lowest(flat, round(fraction * flat.numel())).split([scores[place].numel() for place in places])
        found |= {place: part.view(scores[place].shape) for place, part in zip(places, parts, strict=True)}
    return [found[place] for place in range(len(scores))]


def lowest(scores: Tensor, count: int) -> Tensor:
    """True at the `count` lowest of a flat tensor."""
    if count == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    limit = scores.kthvalue(count).values
    gone = scores < limit
    ties = (scores == limit).nonzero().flatten()
    gone[ties[: count - int(gone.sum())]] = True
    return gone


def lowest_of_rows(scores: Tensor, fraction: float) -> Tensor:
    """True at the lowest `fraction` of each row of [out, in]."""
    order = scores.argsort(dim=-1, stable=True)
    places = order[..., : round(fraction * scores.shape[-1])]
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, places, True)


def off_pattern(scores: Tensor, keep: int, of: int) -> Tensor:
    """True at all but the `keep` highest of each `of` neighbours along the inputs of [out, in]."""
    groups = scores.unflatten(-1, (-1, of))  # [out, groups, of]
    return lowest_of_rows(groups, (of - keep) / of).flatten(-2)


def check_groups(matrices: Sequence[Matrix], of: int) -> None:
    """InputError for the first matrix whose inputs are no multiple of `of`."""
    for each in matrices:
        inputs = each.weight.shape[-1]
        if inputs % of:
            raise InputError(f"prune_weights.pattern: {each.label} has {inputs} inputs, which is no multiple of {of}")
