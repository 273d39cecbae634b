"""Heads by their likeness: places in a plane whose distances are those of the heads, and groups of like ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SAME = 1e-9  # nats; below it all heads count as one


class Arrangement(NamedTuple):
    """`places` [heads, 2], `clusters` [heads] from 0 in the order of their first heads. `stress`: Kruskal's stress-1 of
    the plane, 0 where it shows the distances as they are, above about 0.2 a poor picture."""

    places: np.ndarray
    clusters: np.ndarray
    stress: float


def arrange(distances: np.ndarray, clusters: int) -> Arrangement:
    """Metric scaling (SMACOF, from the classical solution) and average-linkage clusters of distances [heads, heads]."""
    heads = len(distances)
    if heads < 3 or distances.max() < SAME:
        return Arrangement(np.zeros((heads, 2)), np.zeros(heads, dtype=np.int64), 0.0)
    from sklearn.manifold import smacof

    start = _classical(distances)
    places, stress = smacof(distances, n_components=2, init=start, n_init=1, normalized_stress=False)
    scale = np.square(np.triu(distances)).sum()
    return Arrangement(_turned(places), _clusters(distances, min(clusters, heads)), float(np.sqrt(stress / scale)))


def _classical(distances: np.ndarray) -> np.ndarray:
    """Torgerson's scaling to two dimensions."""
    centre = np.eye(len(distances)) - 1 / len(distances)
    values, vectors = np.linalg.eigh(-centre @ np.square(distances) @ centre / 2)
    return _turned(vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]].clip(0)))


def _turned(places: np.ndarray) -> np.ndarray:
    """Around the middle, in each direction with the farthest head on the positive side, so that all runs agree."""
    centred = places - places.mean(0)
    farthest = centred[np.abs(centred).argmax(0), [0, 1]]
    return centred * np.where(farthest < 0, -1, 1)


def _clusters(distances: np.ndarray, count: int) -> np.ndarray:
    from sklearn.cluster import AgglomerativeClustering

    fit = AgglomerativeClustering(n_clusters=count, metric="precomputed", linkage="average").fit(distances)
    names, first = np.unique(fit.labels_, return_index=True)
    order = np.empty(len(names), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(names))
    return order[fit.labels_]
