"""Distance and depth probes on all layers of one model, trained together (Hewitt and Manning 2019, "A Structural Probe
for Finding Syntax in Word Representations", https://aclanthology.org/N19-1419).

A layer has two maps B [rank, width]. |B (h_i - h_j)|^2 is to be the number of edges between two words in the tree,
|B h_i|^2 the number from a word to the root. Each sentence counts the same: its loss is the mean absolute difference
over all pairs of its words, or over its words. The paper lowers the rate by a held-out loss for up to 40 epochs; here
the rate falls linearly to 0 over a given number of them. States are divided by their layer's scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from probe.layer_pieces import LayerPieces, shuffled

BATCH = 20  # sentences, as in the paper
RATE = 1e-2
START = 0.05  # weights are drawn evenly from -0.05 to 0.05, as in the paper


class Tree(NamedTuple):
    """float32 distances [words, words] and depths [words] of one sentence, in edges."""

    distances: Tensor
    depths: Tensor


class Maps(NamedTuple):
    """[layers, width, rank] each."""

    distance: Tensor
    depth: Tensor


class Told(NamedTuple):
    """Of one sentence, in every layer: distances [layers, words, words] and depths [layers, words]."""

    distances: np.ndarray
    depths: np.ndarray


def tree_of(heads: Sequence[int], depths: Sequence[int]) -> Tree:
    """The tree with these heads (-1 for the root): two words are as far apart as their ways up to where they meet."""
    n, up = len(heads), list[set[int]]()
    for word in range(n):
        way, at = {word}, heads[word]
        while at >= 0:
            way.add(at)
            at = heads[at]
        up.append(way)
    shared = torch.tensor([[len(up[i] & up[j]) for j in range(n)] for i in range(n)])  # the root's depth is 0
    deep = torch.tensor(depths)
    return Tree((deep[:, None] + deep - 2 * (shared - 1)).float(), deep.float())


def fit_maps(states: LayerPieces, trees: list[Tree], rank: int, epochs: int, seed: int) -> Maps:
    """Adam on batches of sentences, whose words must all be whole."""
    layers, width = len(states.files.widths), states.files.widths[0]
    generator = torch.Generator().manual_seed(seed)
    start = (torch.rand(2, width, rank, generator=generator) * 2 - 1) * START
    maps = Maps(*(each.repeat(layers, 1, 1).requires_grad_() for each in start))
    optimizer = torch.optim.Adam(maps, lr=RATE)
    steps = epochs * -(-len(trees) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for sentences in shuffled(len(trees), BATCH, epochs, seed):
        loss = _loss(maps, states, sentences, [trees[at] for at in sentences])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return Maps(*(each.detach() for each in maps))


def read_trees(maps: Maps, states: LayerPieces, sentences: int) -> Iterator[Told]:
    """What the maps say of each of so many sentences."""
    for at in range(sentences):
        distances, depths = _predicted(maps, _words(states, [at]))
        yield Told(distances[:, 0].numpy(), depths[:, 0].numpy())


def _loss(maps: Maps, states: LayerPieces, sentences: list[int], trees: list[Tree]) -> Tensor:
    """Of all layers and both maps; each learns from its own part."""
    distances, depths = _predicted(maps, _words(states, sentences))
    counts = [len(tree.depths) for tree in trees]
    losses = [
        (distances[:, at, :n, :n] - tree.distances).abs().sum() / n**2
        + (depths[:, at, :n] - tree.depths).abs().sum() / n
        for at, (n, tree) in enumerate(zip(counts, trees, strict=True))
    ]
    return torch.stack(losses).sum() / len(losses)


def _words(states: LayerPieces, sentences: list[int]) -> Tensor:
    """[layers, sentences, most words, width]: means of the words' pieces, zero where a sentence has fewer words."""
    places, real = states.pieces(sentences)
    tokens = states.tokens(sentences)  # [tokens, layers, width]
    words = (tokens[places] * real[..., None, None]).sum(1) / real.sum(1)[:, None, None]
    parts = words.split([len(states.words.pieces[at]) for at in sentences])
    return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True).permute(2, 0, 1, 3)


def _predicted(maps: Maps, words: Tensor) -> tuple[Tensor, Tensor]:
    """(squared distances [layers, sentences, words, words], squared lengths [layers, sentences, words])."""
    mapped = words @ maps.distance[:, None]
    lengths = mapped.square().sum(-1)
    inner = mapped @ mapped.transpose(-1, -2)
    distances = (lengths[..., None] + lengths[..., None, :] - 2 * inner).clamp(min=0)
    return distances, (words @ maps.depth[:, None]).square().sum(-1)
