"""A live model held at its linear map for the inputs at hand, so that gradient x input conserves what is explained.

Where nothing but sums and products with constants is left, input times gradient is layer-wise relevance propagation by
the epsilon rule with epsilon 0 (Ali et al. 2022, "XAI for Transformers: Better Conservation through Relevance
Propagation"): attention weights and the deviations of norms count as constants. An activation f(x) counts as a
constant factor f(x) / x, which hands its relevance on whole. In a gated feed-forward, act(a) * b, the activation is the
constant and all goes to b, since a product of two would be counted twice; the paper has no such gates.

Values stay as they are; only the backward pass is another one. Biases keep the part of a logit that is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from assay.core.model.anatomy import Family
from assay.core.model.blocks import blocks_of


@contextmanager
def linearised(model: nn.Module, family: Family) -> Iterator[None]:
    """While this lasts a backward pass through `model` sees its linear map at the inputs of the forward pass.

    For eager attention and a model in evaluation mode."""
    gated = [block.module for block in blocks_of(model, family) if len(block.parts(block.stack.ffn_in)) > 1]
    constant = {part for layer in gated for part in layer.modules() if _is_activation(part)}
    with ExitStack() as hooks, _LinearFunctions():
        for part in model.modules():
            if _is_activation(part):
                rule = _held if part in constant else _scaled
                hooks.callback(part.register_forward_hook(rule).remove)
        yield


class _LinearFunctions(TorchFunctionMode):
    """Puts in the place of what the functions of `RULES` return the same values with another derivative."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        return RULES[func](output, *args, **(kwargs or {})) if func in RULES else output


def _constant(output: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return output.detach()


def _factor(output: Tensor, states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`states` times the constant that gives `output`."""
    with torch.no_grad():
        factor = torch.where(states == 0, 0.0, output / states)
    return states * factor


def _norm(
    output: Tensor,
    states: Tensor,
    shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Layer normalisation whose deviation is a constant; its mean is linear as it is."""
    axes = tuple(range(-len(shape), 0))
    with torch.no_grad():
        scale = torch.rsqrt(states.var(axes, unbiased=False, keepdim=True) + eps)
    found = (states - states.mean(axes, keepdim=True)) * scale
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


RULES: dict[Any, Callable[..., Tensor]] = {
    **dict.fromkeys((F.softmax, torch.softmax, Tensor.softmax, torch.rsqrt, Tensor.rsqrt), _constant),
    **dict.fromkeys((F.gelu, F.relu, torch.relu, F.silu, F.tanh, torch.tanh, Tensor.tanh), _factor),
    F.layer_norm: _norm,
}


def _is_activation(part: nn.Module) -> bool:
    """Whether it can be one: it holds no weights and no parts, and is no dropout."""
    holds = any(True for _ in part.children()) or any(True for _ in part.parameters())
    return not holds and not isinstance(part, nn.Dropout)


def _scaled(part: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    return _factor(output, args[0]) if _is_elementwise(args, output) else output


def _held(part: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    return output.detach() if _is_elementwise(args, output) else output


def _is_elementwise(args: tuple[Any, ...], output: Any) -> bool:
    """Whether one tensor of the shape of the input comes out; else it is no activation, such as rotary positions."""
    return isinstance(output, Tensor) and bool(args) and output.shape == getattr(args[0], "shape", None)
