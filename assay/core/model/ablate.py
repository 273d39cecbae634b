"""What a model answers without one of its heads, layers or groups of feed-forward neurons, for many of them at once.

The logits are those of a full pass with the part masked (`masks.py`), up to the rounding of sums. The work is less:
- layers below a cut are run once for all cuts;
- the layer of the cut runs its attention once: the output projection is a sum over heads (the second feed-forward map
  over neurons), so a cut subtracts its share of that sum;
- copies with different cuts go through the layers above stacked in one batch;
- where only the first token is read in the end, the last layer computes its output for that token alone.
Nothing of a family's own code is written anew: its modules run in place, with hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from assay.core.errors import AssayError, InputError
from assay.core.model.anatomy import Family
from assay.core.model.blocks import head_dim, modules_of, turns
from assay.core.model.linear import matrix

Inputs = Mapping[str, Tensor]
Part = Literal["heads", "neurons", "layer"]
TOKENS_A_PASS = 4096  # more make no matrix product faster and no longer fit the caches
FIRST_TOKEN_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Cut:
    """What goes: `units` (positions of heads or neurons among those present) of one layer, or all of that layer.

    `layer` is the position among the present layers."""

    layer: int
    part: Part
    units: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Call:
    """How a layer was called on the plain pass, and what it returned."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any

    def run(self, block: nn.Module) -> Tensor:
        return _states(block(*self.args, **self.kwargs))


@torch.inference_mode()
def logits_without(
    model: nn.Module, family: Family, inputs: Inputs, cuts: Sequence[Cut], tokens: int = TOKENS_A_PASS
) -> tuple[Tensor, Tensor]:
    """(logits of the whole model [batch, labels], logits with each cut [cuts, batch, labels]).

    `inputs`: one tokenized batch. The model must be in evaluation mode, and is as it was afterwards. About `tokens`
    tokens go through it at once. AssayError where the family's layers do not run the projections that are cut."""
    if len(family.stacks) > 1 or family.shares_layers:
        raise InputError("parts can be taken out one by one only where one stack lists each of its layers")
    model_blocks = modules_of(model, family)
    plain, calls = _watched(model, model_blocks, inputs)
    rows, length, _ = _states(calls[-1].output).shape
    at_once = max(1, tokens // (rows * length))
    upper = _Upper(model, family, model_blocks, inputs)
    alone = model_blocks.count(model_blocks[-1]) == 1
    upper.narrow = alone and _reads_first_token(upper, calls[-1], plain)
    found = plain.new_empty(len(cuts), *plain.shape)
    for layer, part, places in _grouped(cuts, at_once):
        units = [cuts[place].units for place in places]
        found[places] = upper.logits(layer, calls[layer], upper.states_after(layer, calls[layer], part, units))
    return plain, found


def _grouped(cuts: Sequence[Cut], at_once: int) -> Iterator[tuple[int, Part, list[int]]]:
    """(layer, part, positions in `cuts`), at most `at_once` of them."""
    places: dict[tuple[int, Part], list[int]] = {}
    for place, cut in enumerate(cuts):
        places.setdefault((cut.layer, cut.part), []).append(place)
    for (layer, part), members in places.items():
        for start in range(0, len(members), at_once):
            yield layer, part, members[start : start + at_once]


class _Upper:
    """The part of a model from one layer on. `narrow`: its last layer is wanted for the first token only."""

    def __init__(self, model: nn.Module, family: Family, blocks: list[nn.Module], inputs: Inputs) -> None:
        self.model, self.family, self.blocks, self.inputs = model, family, blocks, inputs
        (self.stack,) = family.stacks
        self.head_dim = head_dim(model, family)
        self.narrow = False

    def states_after(self, layer: int, call: _Call, part: Part, units: list[tuple[int, ...]]) -> Tensor:
        """[cuts * batch, tokens, width]: what leaves the layer with each cut."""
        block = self.blocks[layer]
        if part == "layer":
            return torch.cat([_states(call.args or tuple(call.kwargs.values()))] * len(units))
        path = self.stack.attention.o if part == "heads" else self.stack.ffn_out
        linear, width = block.get_submodule(path), self.head_dim if part == "heads" else 1
        with self._narrowed(layer), _hooked(linear, _without_each(units, width)):
            states = call.run(block)  # [cuts, batch, tokens, width]
        if states.dim() != 4:
            raise AssayError(f"{self.stack.layers}.{layer}.{path}: this layer does not run the projection that is cut")
        return states.flatten(0, 1)

    def logits(self, layer: int, call: _Call, states: Tensor) -> Tensor:
        """[cuts, batch, labels] from what leaves `layer`, [cuts * batch, tokens, width]."""
        copies = len(states) // len(_states(call.output))
        stacked = {name: value.repeat(copies, *[1] * (value.dim() - 1)) for name, value in self.inputs.items()}
        above = [_Given(states, like=call.output), *self.blocks[layer + 1 :]]
        with layers_replaced(self.model, self.family, above), self._narrowed(len(self.blocks) - 1):
            return self.model(**stacked).logits.unflatten(0, (copies, -1))

    @contextmanager
    def _narrowed(self, layer: int) -> Iterator[None]:
        """While this lasts the last layer runs its output projection and feed-forward for the first token alone.

        The sums with the residual stream broadcast, so the first token is right and the others are not."""
        if not self.narrow or layer != len(self.blocks) - 1:
            yield
            return
        block = self.blocks[layer]
        with ExitStack() as hooks:
            for path in (self.stack.attention.o, *self.stack.ffn_in):
                handle = block.get_submodule(path).register_forward_pre_hook(_first_token)
                hooks.callback(handle.remove)
            yield


def _reads_first_token(upper: _Upper, last: _Call, plain: Tensor) -> bool:
    """Whether the logits stay when the last layer is right for the first token only."""
    upper.narrow = True
    layer = len(upper.blocks) - 1
    with upper._narrowed(layer):
        states = last.run(upper.blocks[layer])
    narrow = upper.logits(layer, last, states)[0]
    return torch.allclose(narrow, plain, rtol=FIRST_TOKEN_TOLERANCE, atol=FIRST_TOKEN_TOLERANCE)


class _Given(nn.Module):
    """Stands in the place of all layers up to some layer, and hands on what that one would have."""

    def __init__(self, states: Tensor, like: Any) -> None:
        super().__init__()
        self.states, self.like = states, like

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The states, in the shape in which the family's layers return them."""
        return self.states if isinstance(self.like, Tensor) else (self.states, *self.like[1:])


def _watched(model: nn.Module, blocks: Sequence[nn.Module], inputs: Inputs) -> tuple[Tensor, list[_Call]]:
    """Logits of a plain pass, and how each layer was called in it."""
    calls: dict[int, _Call] = {}

    def note(place: int) -> Callable[..., None]:
        turn = turns(blocks, place)

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            if next(turn):
                calls[place] = _Call(args, kwargs, output)

        return hook

    with ExitStack() as hooks:
        for place, block in enumerate(blocks):
            hooks.callback(block.register_forward_hook(note(place), with_kwargs=True).remove)
        logits = model(**inputs).logits
    return logits, [calls[place] for place in range(len(blocks))]


@contextmanager
def layers_replaced(model: nn.Module, family: Family, blocks: Iterable[nn.Module]) -> Iterator[None]:
    """The model with these layers in the place of its own while the context lasts."""
    (stack,) = family.stacks
    own = model.get_submodule(stack.layers)
    model.set_submodule(stack.layers, nn.ModuleList(blocks))
    try:
        yield
    finally:
        model.set_submodule(stack.layers, own)


@contextmanager
def _hooked(module: nn.Module, hook: Callable[..., Any]) -> Iterator[None]:
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _without_each(units: list[tuple[int, ...]], width: int) -> Callable[..., Tensor]:
    """A hook that turns the output [batch, tokens, out] of a linear map into one a cut, [cuts, batch, tokens, out]."""
    columns = [torch.tensor([unit * width + column for unit in each for column in range(width)]) for each in units]

    def hook(linear: nn.Linear, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        weight = matrix(linear)
        shares = [args[0][..., each] @ weight[:, each].T for each in columns]
        return output - torch.stack(shares)

    return hook


def _first_token(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    states, *rest = args
    return (states[..., :1, :], *rest)


def _states(output: Any) -> Tensor:
    """The hidden states of what a layer takes or gives: alone or the first of several."""
    return output if isinstance(output, Tensor) else output[0]
