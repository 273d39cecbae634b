"""The layers of a live model in the order in which they run, each with the names of its parts.

A module that stands for several layers (all of ALBERT's, those that `ShareLayers` names) is in the list several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import cast

from torch import nn
from transformers import PreTrainedModel

from assay.core.model.anatomy import Attention, Family, Stack
from assay.core.model.layout import unedited_layout


@dataclass(frozen=True)
class Block:
    """One layer: its module, its stack's anatomy, and its path from the model."""

    module: nn.Module
    stack: Stack
    path: str

    def attention(self, cross: bool = False) -> Attention | None:
        """Names of the self attention, or of the `cross` attention; None where the layer has none."""
        return self.stack.cross if cross else self.stack.attention

    def part(self, path: str) -> nn.Module:
        """The module at a path from the layer."""
        return self.module.get_submodule(path)

    def parts(self, paths: Sequence[str]) -> list[nn.Module]:
        """The modules at those paths that the layer has."""
        own = {name for name, _ in self.module.named_modules()}
        return [self.part(path) for path in paths if path in own]

    def maps(self) -> dict[str, str]:
        """The linear maps of attention and feed-forward that the layer has: name -> path from the layer.

        Names: `q`, `k`, `v`, or `qkv` where one map holds all three, `o`, the same after `cross_`, `ffn_in`, `ffn_out`;
        the second of a kind is numbered, as in `ffn_in_1` of a gated feed-forward."""
        own = {name for name, _ in self.module.named_modules()}
        found: dict[str, str] = {}
        for kind, paths in _kinds(self.stack):
            there = [path for path in paths if path in own]
            found |= {f"{kind}_{place}" if place else kind: path for place, path in enumerate(there)}
        return found

    @property
    def o(self) -> nn.Module:
        """Output projection of the self attention."""
        return self.part(self.stack.attention.o)

    @property
    def ffn_out(self) -> nn.Module:
        """The second feed-forward map."""
        return self.part(self.stack.ffn_out)


def blocks_of(model: nn.Module, family: Family) -> list[Block]:
    """Every layer, through all stacks, from bottom to top."""
    found = []
    for stack in family.stacks:
        held = list(cast(nn.ModuleList, model.get_submodule(stack.layers)))
        if family.shares_layers:
            held = held * getattr(model.config, stack.depth_key)
            found += [Block(module, stack, f"{stack.layers}.0") for module in held]
        else:
            found += [Block(module, stack, f"{stack.layers}.{place}") for place, module in enumerate(held)]
    return found


def modules_of(model: nn.Module, family: Family) -> list[nn.Module]:
    """As `blocks_of`, the modules alone."""
    return [block.module for block in blocks_of(model, family)]


def head_dim(model: nn.Module, family: Family) -> int:
    """Width of one head; no edit changes it."""
    return unedited_layout(cast(PreTrainedModel, model).config.to_dict(), family).head_dim


def turns(modules: Sequence[nn.Module], position: int) -> Iterator[bool]:
    """For each call of `modules[position]` in turn, without end: whether it is in that place that it is called."""
    return cycle([place == position for place, each in enumerate(modules) if each is modules[position]])


def _kinds(stack: Stack) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name, paths) of each kind of linear map."""
    for prefix, names in (("", stack.attention), ("cross_", stack.cross)):
        if names is not None:
            yield f"{prefix}q", names.q
            yield f"{prefix}qkv", (names.qkv,) if names.qkv else ()
            yield from ((f"{prefix}{kind}", (path,)) for kind, path in zip("kv", names.kv, strict=False))
            yield f"{prefix}o", (names.o,)
    yield "ffn_in", stack.ffn_in
    yield "ffn_out", (stack.ffn_out,)
