"""Attention maps of known shape, to learn the shapes from: the five classes of Kovaleva et al. 2019 ("Revealing the
Dark Secrets of BERT", https://aclanthology.org/D19-1445).

vertical: every token looks at the same few;  diagonal: at itself or its neighbours;  vertical+diagonal: both;
block: at its own part of the text;  heterogeneous: none of these. The paper labels 400 maps by hand; here they are
drawn, with up to half of the attention strewn, so the borders between classes are those of the drawing.
"""

from __future__ import annotations

import numpy as np

CLASSES = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
MOST_STREWN = 0.5
STEPS = (-2, -1, 0, 1, 2)  # of diagonals


def make_maps(count: int, n: int, causal: bool, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(float32 maps [count, n, n], classes [count]), the classes in turns. `causal`: a token sees none behind it."""
    classes = np.arange(count) % len(CLASSES)
    drawn = [_map(CLASSES[at], n, causal, rng) for at in classes]
    return np.stack(drawn).astype(np.float32), classes


def _map(name: str, n: int, causal: bool, rng: np.random.Generator) -> np.ndarray:
    strewn = _heterogeneous(n, rng)
    if name == "heterogeneous":
        return _seen(strewn, causal)
    pure = {"vertical": _vertical, "diagonal": _diagonal, "block": _block}
    if name in pure:
        shape = _seen(pure[name](n, causal, rng), causal)
    else:
        share = rng.uniform(0.3, 0.7)
        parts = (_vertical(n, causal, rng), _diagonal(n, causal, rng))
        shape = share * _seen(parts[0], causal) + (1 - share) * _seen(parts[1], causal)
    noise = rng.uniform(0, MOST_STREWN)
    return (1 - noise) * shape + noise * _seen(strewn, causal)


def _seen(weights: np.ndarray, causal: bool) -> np.ndarray:
    """Rows that sum to 1, over what each token sees."""
    kept = np.tril(weights + 1e-6) if causal else weights + 1e-6
    return kept / kept.sum(1, keepdims=True)


def _vertical(n: int, causal: bool, rng: np.random.Generator) -> np.ndarray:
    """One to three columns, early ones where later ones are not seen by most; rows differ a little."""
    reach = max(3, n // 4) if causal else n
    columns = rng.choice(reach, rng.integers(1, 4), replace=False)
    weights = np.zeros((n, n))
    weights[:, columns] = rng.dirichlet(np.ones(len(columns))) * rng.uniform(0.6, 1, (n, len(columns)))
    return weights


def _diagonal(n: int, causal: bool, rng: np.random.Generator) -> np.ndarray:
    """One neighbour, or a band of up to three; at the ends the nearest that there is."""
    steps = [step for step in STEPS if step <= 0] if causal else list(STEPS)
    width = rng.integers(1, 4)
    first = rng.integers(0, len(steps) - width + 1)
    shares = rng.dirichlet(np.ones(width))
    weights = np.zeros((n, n))
    for step, share in zip(steps[first : first + width], shares, strict=True):
        weights[np.arange(n), (np.arange(n) + step).clip(0, n - 1)] += share
    return weights


def _block(n: int, causal: bool, rng: np.random.Generator) -> np.ndarray:
    """Two parts, none below a quarter, each looking at itself, more or less evenly."""
    cut = rng.integers(max(1, n // 4), n - max(1, n // 4) + 1)
    side = np.arange(n) < cut
    return (side[:, None] == side) * rng.gamma(rng.uniform(1, 20), size=(n, n))


def _heterogeneous(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn one by one, from one token each to all alike, with more for some columns than for others."""
    return rng.gamma(10 ** rng.uniform(-1, 1.5), size=(n, n)) * rng.gamma(rng.uniform(1, 20), size=n)
