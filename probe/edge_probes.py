"""Edge probes on the layers of one model, all trained together: what a pair of words is to each other, read from a mix
of layers (Tenney et al. 2019, "What do you learn from context?", https://arxiv.org/abs/1905.06316).

A probe mixes the layers it may see by a softmax of learnt weights, projects the mix, pools the pieces of each word by
attention or as their mean, and gives the two words to a network with one hidden layer. The first and the second word
have projections and pooling of their own. Probe k sees the layers 0 .. k; the last one sees all of them with other
labels, those of the control task. Every probe starts from the same weights, so they differ by what they see.

In the paper labels are independent yes-or-no questions, since some of its tasks give several to a pair; here each pair
has one, of a softmax. Here layers are divided by their scale before they are mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from probe.layer_pieces import LayerPieces, shuffled

SpanPooling = Literal["attention", "mean"]
BATCH = 16  # sentences
RATE = 2e-3
DECAY = 1e-2


class Pairs(NamedTuple):
    """Pairs of words of one sentence. first, second: int64 [pairs] positions among the sentence's whole words;
    labels, control: int64 [pairs]"""

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray
    control: np.ndarray


@dataclass(frozen=True)
class EdgeProbes:
    """Weights of all probes, those of probe k at [k]; `sees` is bool [probes, layers]."""

    sees: Tensor
    mix: Tensor  # [probes, layers]
    project: Tensor  # [2, probes, width + 1, size], first and second word; the last row is the bias
    attend: Tensor  # [2, probes, size, 1]
    inner: Tensor  # [probes, 2 size + 1, hidden]
    outer: Tensor  # [probes, hidden + 1, classes]
    pooling: SpanPooling

    @classmethod
    def start(
        cls, layers: int, width: int, classes: int, size: int, hidden: int, pooling: SpanPooling, seed: int
    ) -> EdgeProbes:
        """One probe for each prefix of the layers, and the control's."""
        generator = torch.Generator().manual_seed(seed)
        probes = layers + 1

        def drawn(*shape: int) -> Tensor:
            """The same for all probes; the last row of a map is its bias, and 0."""
            weights = torch.randn(*shape, generator=generator) * shape[-2] ** -0.5
            weights[..., -1, :] = 0
            return weights.unsqueeze(-3).repeat(*[1] * (len(shape) - 2), probes, 1, 1).requires_grad_()

        sees = torch.ones(probes, layers).tril().bool()
        return cls(
            sees,
            torch.zeros(probes, layers, requires_grad=True),
            drawn(2, width + 1, size),
            torch.zeros(2, probes, size, 1, requires_grad=True),
            drawn(2 * size + 1, hidden),
            drawn(hidden + 1, classes),
            pooling,
        )

    @property
    def parameters(self) -> list[Tensor]:
        """All that is learnt."""
        return [self.mix, self.project, self.attend, self.inner, self.outer]

    @property
    def shares(self) -> Tensor:
        """[probes, layers]: what each layer has in the mix, summing to 1."""
        return self.mix.masked_fill(~self.sees, -torch.inf).softmax(1)

    def logits(self, tokens: Tensor, words: tuple[Tensor, Tensor], first: Tensor, second: Tensor) -> Tensor:
        """[probes, pairs, classes] from `LayerPieces.tokens` and `.pieces`, and the pairs' places among the words."""
        mixed = torch.einsum("kl,tlw->ktw", self.shares, tokens)
        spans = [self._pooled(side, mixed, words)[:, place] for side, place in enumerate((first, second))]
        hidden = _affine(torch.cat(spans, 2), self.inner).tanh()
        return _affine(hidden, self.outer)

    def _pooled(self, side: int, mixed: Tensor, words: tuple[Tensor, Tensor]) -> Tensor:
        """[probes, words, size]: each word as its projected pieces' mean or attention-weighted sum."""
        places, real = words
        pieces = _affine(mixed, self.project[side])[:, places]  # [probes, words, most pieces, size]
        scores = (pieces @ self.attend[side][:, None]).squeeze(3)
        scores = scores if self.pooling == "attention" else torch.zeros_like(scores)
        weights = scores.masked_fill(~real, -torch.inf).softmax(2)
        return (weights[..., None] * pieces).sum(2)


def train_probes(
    probes: EdgeProbes, states: LayerPieces, pairs: list[Pairs], epochs: int, seed: int, batch: int = BATCH
) -> None:
    """AdamW on batches of sentences; each probe has its own loss and learns by itself."""
    optimizer = torch.optim.AdamW(probes.parameters, lr=RATE, weight_decay=DECAY)
    for sentences in shuffled(len(pairs), batch, epochs, seed):
        joined = _joined(pairs, sentences, states)
        if not len(joined.labels):
            continue
        logits = _answer(probes, states, sentences, joined)
        targets = torch.stack([joined.labels] * (len(logits) - 1) + [joined.control])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) * len(logits)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def answers(probes: EdgeProbes, states: LayerPieces, pairs: list[Pairs]) -> np.ndarray:
    """int64 [probes, all pairs]: the classes named, sentence by sentence."""
    parts = [list(range(start, min(start + BATCH, len(pairs)))) for start in range(0, len(pairs), BATCH)]
    with torch.inference_mode():
        found = [_named(probes, states, part, _joined(pairs, part, states)) for part in parts]
    return torch.cat(found, 1).numpy()


class _Joined(NamedTuple):
    first: Tensor
    second: Tensor
    labels: Tensor
    control: Tensor


def _joined(pairs: list[Pairs], sentences: list[int], states: LayerPieces) -> _Joined:
    """The pairs of several sentences, their words counted on."""
    whole = [sum(map(bool, states.words.pieces[at])) for at in sentences]
    starts = np.cumsum([0, *whole])[:-1]
    moved = [
        (own.first + start, own.second + start, own.labels, own.control)
        for own, start in zip([pairs[at] for at in sentences], starts, strict=True)
    ]
    return _Joined(*(torch.from_numpy(np.concatenate(part)) for part in zip(*moved, strict=True)))


def _answer(probes: EdgeProbes, states: LayerPieces, sentences: list[int], joined: _Joined) -> Tensor:
    return probes.logits(states.tokens(sentences), states.pieces(sentences), joined.first, joined.second)


def _named(probes: EdgeProbes, states: LayerPieces, sentences: list[int], joined: _Joined) -> Tensor:
    if not len(joined.labels):
        return torch.zeros(len(probes.sees), 0, dtype=torch.long)
    return _answer(probes, states, sentences, joined).argmax(2)


def _affine(inputs: Tensor, weights: Tensor) -> Tensor:
    """[probes, rows, in] x [probes, in + 1, out]: the last row is the bias."""
    return torch.baddbmm(weights[:, -1:], inputs, weights[:, :-1])
