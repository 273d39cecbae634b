"""Learned gates on heads, feed-forward neurons and whole layers of a model (Voita et al. 2019; CoFi, Xia et al. 2022).

Gates are hard concrete while they are learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

import torch
from torch import Tensor, nn

from assay.core.model.anatomy import Family
from assay.core.model.masks import mask_heads, mask_neurons
from compress.gate_choice import Shape, choose, share_gone
from compress.hard_concrete import open_probability, settled
from compress.layer_gates import layers_gated
from compress.learned_gates import LearnedGates

HOOKS: dict[str, Callable[..., AbstractContextManager[None]]] = {
    "heads": mask_heads,
    "neurons": mask_neurons,
    "layers": layers_gated,
}


class Gates(LearnedGates):
    """One gate a unit of each of `kinds`: `heads`, `neurons`, `layers`. A layer's gate counts for all that is in it."""

    def __init__(self, shape: Shape, kinds: Sequence[str], rate: float = 1.0) -> None:
        super().__init__(rate)
        self.shape, self.kinds = shape, list(kinds)
        sizes = {**shape.sizes, "layers": [1] * len(shape.stacks)}
        self.stored = nn.ParameterDict(
            {kind: nn.ParameterList(self.start(size) for size in sizes[kind]) for kind in kinds}
        )
        for kind in kinds:
            for layer, size in enumerate(sizes[kind]):
                self.register_buffer(f"kept_{kind}_{layer}", torch.ones(size, dtype=torch.bool))

    @property
    def log_alpha(self) -> dict[str, list[Tensor]]:
        """One tensor [units] a layer, by kind."""
        return {kind: [self.log_alpha_of(each) for each in self._stored(kind)] for kind in self.kinds}

    @property
    def kept(self) -> dict[str, list[Tensor]]:
        """False where a unit is gone, by kind and layer; all True until they are decided."""
        depth = len(self.shape.stacks)
        return {kind: [self.get_buffer(f"kept_{kind}_{layer}") for layer in range(depth)] for kind in self.kinds}

    def expected_sparsity(self) -> Tensor:
        """See `LearnedGates`."""
        chances = {kind: [open_probability(each) for each in layers] for kind, layers in self.log_alpha.items()}
        left = torch.zeros(())
        for kind in self.shape.counted(self.kinds):
            for layer, size in enumerate(self.shape.sizes[kind]):
                units = chances[kind][layer].sum() if kind in chances else torch.tensor(float(size))
                there = chances["layers"][layer].sum() if "layers" in chances else 1.0
                left = left + (self.shape.costs[kind] * units * there).cpu()
        return 1 - left / self.shape.total(self.kinds)

    @torch.no_grad()
    def decide(self, target: float) -> None:
        """Round the gates so that the share `target` of the weights goes; see `gate_choice.choose`."""
        log_alpha = {kind: [each.cpu() for each in layers] for kind, layers in self.log_alpha.items()}
        closed = [bool(settled(each) == 0) for each in log_alpha.get("layers", [])]
        chosen = choose(self.shape, log_alpha, closed, target)
        for kind, layers in self.kept.items():
            for buffer, stays in zip(layers, chosen[kind], strict=True):
                buffer.copy_(stays)
        self.get_buffer("decided").fill_(True)

    def reached_sparsity(self) -> float:
        """Share of the weights that can go which is gone."""
        return share_gone(self.shape, self.kept)

    def masks(self) -> dict[str, list[Tensor]]:
        """What units are multiplied by: drawn anew in training, 0 and 1 when decided, else without noise."""
        if self.is_decided:
            return {kind: [each.float() for each in layers] for kind, layers in self.kept.items()}
        return {kind: [self.read(each) for each in layers] for kind, layers in self.log_alpha.items()}

    @contextmanager
    def applied(self, model: nn.Module, family: Family) -> Iterator[None]:
        """The model with its gates while the context lasts; one draw for all its passes."""
        with ExitStack() as hooks:
            for kind, masks in self.masks().items():
                hooks.enter_context(HOOKS[kind](model, family, masks))
            yield

    def _stored(self, kind: str) -> nn.ParameterList:
        held = self.stored[kind]
        assert isinstance(held, nn.ParameterList)
        return held
