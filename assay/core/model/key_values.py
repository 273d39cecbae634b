"""Grouped-query attention with any number of query heads to a key/value head (Ainslie et al. 2023,
https://arxiv.org/abs/2305.13245).

transformers repeats each key/value head the same number of times. Where pruning leaves groups of unlike sizes, the
heads are repeated here instead, by a hook on the two maps: plain indexing, so it is traced and exported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn


def match_queries(attention: nn.Module, maps: Sequence[nn.Module], users: list[int], head_dim: int) -> None:
    """Let query head i of `attention` use key/value head `users[i]` (ascending) of the key and value `maps`.

    Takes the place of what an earlier cut arranged."""
    for hook in getattr(attention, "repeat_hooks", ()):
        hook.remove()
    counts = {users.count(head) for head in users}
    uneven = len(counts) > 1
    attention.num_key_value_groups = 1 if uneven else counts.pop()  # type: ignore[assignment]
    channels = [head * head_dim + channel for head in users for channel in range(head_dim)]
    hooks = [each.register_forward_hook(_repeat(channels)) for each in maps] if uneven else []
    attention.repeat_hooks = hooks  # type: ignore[assignment]


def _repeat(channels: list[int]) -> Any:
    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output[..., channels]

    return hook
