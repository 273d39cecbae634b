"""Queries, keys and values of a live model's self-attention, layer by layer, on its way through a batch: by hooks.

They are what the linear maps give, whatever class holds them: before a rotation by position (Llama), and without what
other maps say of positions (DeBERTa). The attention of a decoder to its encoder is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from torch import Tensor, nn

from assay.core.errors import AssayError
from assay.core.model.anatomy import Family
from assay.core.model.blocks import Block, blocks_of, head_dim
from assay.core.model.linear import matrix


@dataclass(frozen=True)
class Projections:
    """Of one layer.

    q:    [batch, heads, tokens, head_dim]
    k, v: [batch, key/value heads, tokens, head_dim]; fewer than `q` where each serves several heads. Where pruning left
          groups of unlike sizes they are repeated already, one a head."""

    q: Tensor
    k: Tensor
    v: Tensor

    def of_each_head(self, which: Tensor) -> Tensor:
        """`k` or `v` as the heads read it, [batch, heads, tokens, head_dim]."""
        return which.repeat_interleave(self.q.shape[1] // which.shape[1], dim=1)


Last = Callable[[], list[Projections]]


@contextmanager
def watch_projections(model: nn.Module, family: Family) -> Iterator[Last]:
    """While this lasts, the function that it gives tells what the model's last pass projected in each present layer,
    from bottom to top. The function raises AssayError where a layer's maps were not run."""
    blocks, width = blocks_of(model, family), head_dim(model, family)
    watches = {id(block.module): _Watch(block) for block in blocks}
    with ExitStack() as hooks:
        for identity, watch in watches.items():
            watch.turns = cycle([place for place, block in enumerate(blocks) if id(block.module) == identity])
            watch.hook(hooks)
        yield lambda: [watches[id(block.module)].projections(place, width) for place, block in enumerate(blocks)]


def output_maps(model: nn.Module, family: Family) -> list[Tensor]:
    """Of each present layer the part of the output projection that reads each head, [heads, width, head_dim]: what a
    head adds to the states is this times the sum of its values, each by its attention weight. The bias is no head's."""
    width = head_dim(model, family)
    return [matrix(block.o).unflatten(1, (-1, width)).transpose(0, 1) for block in blocks_of(model, family)]


@dataclass
class _Watch:
    """One module, which may stand for several layers, in turns; `seen` holds what its maps gave, by layer and name."""

    block: Block
    turns: Iterator[int] = field(default_factory=lambda: cycle([0]))
    seen: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    place: int = 0

    def hook(self, hooks: ExitStack) -> None:
        """Look at the module and its maps until `hooks` are closed."""
        maps = self.block.maps()
        hooks.callback(self.block.module.register_forward_pre_hook(self._enter).remove)
        for name in ("qkv",) if "qkv" in maps else ("q", "k", "v"):
            hooks.callback(self.block.part(maps[name]).register_forward_hook(self._note(name)).remove)

    def projections(self, place: int, width: int) -> Projections:
        """What the layer at this place had; `width` is that of a head."""
        seen = self.seen.get(place, {})
        if "qkv" in seen:
            parts: Sequence[Tensor] = seen["qkv"].chunk(3, dim=-1)
        elif len(seen) == 3:
            parts = [seen[name] for name in ("q", "k", "v")]
        else:
            raise AssayError(f"{self.block.path}: this layer's queries, keys and values were not computed by its maps")
        return Projections(*(part.unflatten(-1, (-1, width)).transpose(1, 2) for part in parts))

    def _enter(self, module: nn.Module, args: Any) -> None:
        self.place = next(self.turns)
        self.seen[self.place] = {}

    def _note(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            """The first that a map is asked for is the states; DeBERTa's read the positions after."""
            self.seen[self.place].setdefault(name, output)

        return hook
