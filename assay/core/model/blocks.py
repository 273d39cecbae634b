"""The layers of a live model in the order in which they run, each with the names of its parts.

A family that shares its layers (ALBERT) passes one module several times: it then stands in the list several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from assay.core.model.anatomy import Attention, Family, Stack


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
        held = list(model.get_submodule(stack.layers).children())
        if family.shares_layers:
            held = held * getattr(model.config, stack.depth_key)
            found += [Block(module, stack, f"{stack.layers}.0") for module in held]
        else:
            found += [Block(module, stack, f"{stack.layers}.{place}") for place, module in enumerate(held)]
    return found


def modules_of(model: nn.Module, family: Family) -> list[nn.Module]:
    """As `blocks_of`, the modules alone."""
    return [block.module for block in blocks_of(model, family)]
