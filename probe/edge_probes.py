"""Edge probes on the layers of one model, all trained together: what a span of words is, or two are to each other, read
from a mix of layers (Tenney et al. 2019, "What do you learn from context?", https://arxiv.org/abs/1905.06316).

A probe mixes the layers it may see by a softmax of learnt weights, projects the mix, pools the pieces of each span by
attention or as their mean, and gives a target's one or two spans to a network with one hidden layer. The first and the
second span have projections and pooling of their own. Probe k sees the layers 0 .. k; the last one sees all of them
with other labels, those of the control task. Every probe starts from the same weights, so they differ by what they see.

In the paper labels are independent yes-or-no questions, since some of its tasks give several to a target; here each has
one, of a softmax. Here layers are divided by their scale before they are mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from probe.edge_targets import NumberedTargets, numbers_of
from probe.layer_pieces import LayerPieces, shuffled

SpanPooling = Literal["attention", "mean"]
BATCH = 16  # sentences
RATE = 2e-3
DECAY = 1e-2


@dataclass(frozen=True)
class EdgeProbes:
    """Weights of all probes, those of probe k at [k]; `sees` is bool [probes, layers]."""

    sees: Tensor
    mix: Tensor  # [probes, layers]
    project: Tensor  # [1 or 2, probes, width + 1, size], first and second span; the last row is the bias
    attend: Tensor  # [1 or 2, probes, size, 1]
    inner: Tensor  # [probes, (1 or 2) size + 1, hidden]
    outer: Tensor  # [probes, hidden + 1, classes]
    pooling: SpanPooling

    @classmethod
    def start(
        cls,
        layers: int,
        width: int,
        classes: int,
        size: int,
        hidden: int,
        pooling: SpanPooling,
        seed: int,
        sides: int = 2,
    ) -> EdgeProbes:
        """One probe for each prefix of the layers, and the control's, for targets of so many spans (`sides`)."""
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
            drawn(sides, width + 1, size),
            torch.zeros(sides, probes, size, 1, requires_grad=True),
            drawn(sides * size + 1, hidden),
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

    def logits(self, tokens: Tensor, spans: tuple[Tensor, Tensor], *ends: Tensor) -> Tensor:
        """[probes, targets, classes] from `LayerPieces.tokens` and `.pieces`, and of each side the targets' places
        among the spans."""
        mixed = torch.einsum("kl,tlw->ktw", self.shares, tokens)
        pooled = [self._pooled(side, mixed, spans)[:, place] for side, place in enumerate(ends)]
        hidden = _affine(torch.cat(pooled, 2), self.inner).tanh()
        return _affine(hidden, self.outer)

    def _pooled(self, side: int, mixed: Tensor, spans: tuple[Tensor, Tensor]) -> Tensor:
        """[probes, spans, size]: each span as its projected pieces' mean or attention-weighted sum."""
        places, real = spans
        pieces = _affine(mixed, self.project[side])  # [probes, tokens, size]
        scores = (pieces @ self.attend[side]).squeeze(2)[:, places]  # [probes, spans, most pieces]
        scores = scores if self.pooling == "attention" else torch.zeros_like(scores)
        weights = scores.masked_fill(~real, -torch.inf).softmax(2)
        shares = weights.new_zeros(len(pieces), len(places), pieces.shape[1])  # of each token in each span
        return shares.scatter_add(2, places.expand_as(weights), weights) @ pieces


def train_probes(
    probes: EdgeProbes, states: LayerPieces, targets: list[NumberedTargets], epochs: int, seed: int, batch: int = BATCH
) -> None:
    """AdamW on batches of sentences; each probe has its own loss and learns by itself."""
    optimizer = torch.optim.AdamW(probes.parameters, lr=RATE, weight_decay=DECAY)
    for sentences in shuffled(len(targets), batch, epochs, seed):
        own = [targets[at] for at in sentences]
        labels, control = (torch.from_numpy(numbers_of(own, name)) for name in ("labels", "control"))
        if not len(labels):
            continue
        logits = _answer(probes, states, sentences, own)
        wanted = torch.stack([labels] * (len(logits) - 1) + [control])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten()) * len(logits)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def answers(probes: EdgeProbes, states: LayerPieces, targets: list[NumberedTargets]) -> np.ndarray:
    """int64 [probes, all targets]: the classes named, sentence by sentence."""
    parts = [list(range(start, min(start + BATCH, len(targets)))) for start in range(0, len(targets), BATCH)]
    with torch.inference_mode():
        found = [_answer(probes, states, part, [targets[at] for at in part]).argmax(2) for part in parts]
    return torch.cat(found, 1).numpy()


def _answer(probes: EdgeProbes, states: LayerPieces, sentences: list[int], targets: list[NumberedTargets]) -> Tensor:
    """[probes, targets of these sentences, classes]; the spans of one sentence are counted on from the last one's."""
    starts = np.cumsum([0, *(len(own.spans) for own in targets)])[:-1]
    ends = np.concatenate([own.ends + start for own, start in zip(targets, starts, strict=True)], axis=1)
    spans = states.pieces(sentences, [own.spans for own in targets])
    return probes.logits(states.tokens(sentences), spans, *torch.from_numpy(ends))


def _affine(inputs: Tensor, weights: Tensor) -> Tensor:
    """[probes, rows, in] x [probes, in + 1, out]: the last row is the bias."""
    return torch.baddbmm(weights[:, -1:], inputs, weights[:, :-1])
