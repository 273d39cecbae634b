"""Gradients along the straight way from a baseline's word embeddings to those of a text.

Integrated gradients: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", eq. 1; the integral by
Gauss-Legendre quadrature, where the paper takes a Riemann sum. The baseline stands at the pieces of words and nowhere
else: separators, positions and the attention mask stay, as do the ids, which some classifiers count on to find the
token they read.

The output of the embedding modules is replaced by hooks. An encoder-decoder classifier reads the text twice, in its
encoder and, one place later, in its decoder; both are led along the way, and a token's figure is the sum of the two.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from assay.core.errors import NotGiven

TOKENS_A_PASS = 2048  # so that the states which are kept for the way back stay small


@dataclass(frozen=True)
class Gradients:
    """Of one text: `integrated` and `times_input` are float64 [tokens], 0 on separators; `logit` and `baseline_logit`
    are the target's at both ends of the way."""

    integrated: np.ndarray
    times_input: np.ndarray
    logit: float
    baseline_logit: float

    @property
    def completeness_error(self) -> float:
        """How far the integrated gradients' sum misses the change of the logit, as a share of that change."""
        change = self.logit - self.baseline_logit
        return abs(float(self.integrated.sum()) - change) / abs(change) if change else float("inf")


class EmbeddingPath:
    """The way for one model. `baseline`: the token whose embedding it starts from, or None for zeros."""

    def __init__(self, module: PreTrainedModel, baseline: int | None) -> None:
        table = module.get_input_embeddings().weight
        self.module = module
        self._starts = {
            part: _embedding(part, baseline)
            for part in module.modules()
            if isinstance(part, nn.Embedding) and part.weight is table
        }
        self._here = threading.local()

    @contextmanager
    def open(self) -> Iterator[EmbeddingPath]:
        """While this lasts, `gradients` can be asked for, from several threads."""
        with ExitStack() as hooks:
            for part in self._starts:
                hooks.callback(part.register_forward_hook(self._replace).remove)
            yield self

    def gradients(self, ids: Sequence[int], of_words: np.ndarray, target: int, steps: int) -> Gradients:
        """Those of one text's target logit; `steps` points of the way are looked at, beside both its ends."""
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        places = np.array([*(nodes + 1) / 2, 1.0, 0.0])
        shares = np.array([[*weights / 2, 0.0, 0.0], [0.0] * steps + [1.0, 0.0]])  # of each figure, [2, places]
        at_once = max(1, TOKENS_A_PASS // len(ids))
        found, logits = np.zeros((2, len(ids))), []
        for start in range(0, len(places), at_once):
            part = slice(start, start + at_once)
            way = _Way(torch.tensor(ids), torch.from_numpy(of_words), torch.from_numpy(places[part]))
            logits += self._walk(way, target)
            found += way.figures(torch.from_numpy(shares[:, part])).numpy()
        return Gradients(*found, *logits[-2:])

    def _walk(self, way: _Way, target: int) -> list[float]:
        """The target's logit at each place; the way has the gradients then."""
        ids = way.ids.expand(len(way.places), -1)
        self._here.way = way
        try:
            logits = self.module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, target]
        finally:
            self._here.way = None
        way.slopes = torch.autograd.grad(logits.sum(), [look.point for look in way.looks])
        return logits.double().tolist()

    def _replace(self, embedding: nn.Embedding, args: tuple[Any, ...], output: Tensor) -> Tensor:
        way: _Way | None = getattr(self._here, "way", None)
        return output if way is None else way.look(args[0][0], output.detach()[0], self._starts[embedding])


@dataclass(frozen=True)
class _Look:
    """One reading of the text by an embedding module, each token `late` places late. `point` [places, tokens, width] is
    what it hands on, `goal` [tokens, width] the text's own, `change` how far that is from the baseline's."""

    point: Tensor
    goal: Tensor
    change: Tensor
    late: int


@dataclass
class _Way:
    """One text [tokens] at some `places` between baseline (0) and text (1)."""

    ids: Tensor
    of_words: Tensor
    places: Tensor
    looks: list[_Look] = field(default_factory=list)
    slopes: Sequence[Tensor] = ()

    def look(self, read: Tensor, goal: Tensor, baseline: Tensor) -> Tensor:
        """[places, tokens, width], in the place of the embeddings `goal` of the tokens `read`."""
        late = self._late(read)
        moved = torch.zeros_like(self.of_words)
        moved[late:] = self.of_words[: len(moved) - late]
        change = torch.where(moved[:, None], goal - baseline, 0.0)
        back = (1 - self.places).to(goal.dtype)[:, None, None]
        point = (goal - back * change).requires_grad_()
        self.looks.append(_Look(point, torch.where(moved[:, None], goal, 0.0), change, late))
        return point

    def _late(self, read: Tensor) -> int:
        if torch.equal(read, self.ids):
            return 0
        if torch.equal(read[1:], self.ids[:-1]):
            return 1
        raise NotGiven("the model looks up other tokens than those of its text, which gradients cannot be summed over")

    def figures(self, shares: Tensor) -> Tensor:
        """float64 [2, tokens]: integrated gradients and gradient times input, as far as these places have `shares`
        [2, places] in them."""
        found = torch.zeros(2, len(self.ids), dtype=torch.float64)
        for look, slope in zip(self.looks, self.slopes, strict=True):
            mean = torch.einsum("fp,ptw->ftw", shares, slope.double())
            by_place = (mean * torch.stack([look.change, look.goal]).double()).sum(-1)
            found[:, : len(self.ids) - look.late] += by_place[:, look.late :]
        return found


@torch.no_grad()
def _embedding(part: nn.Embedding, token: int | None) -> Tensor:
    """[width]: what the module makes of a token, zeros for None."""
    found: Tensor = part(torch.tensor([[token or 0]]))[0, 0]
    return torch.zeros_like(found) if token is None else found
