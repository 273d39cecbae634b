"""Every layer's pooled states of the texts of several tasks, each text read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probe.fit_memory import check_fit_memory
from probe.pooling import Pooling, pooled_states

if TYPE_CHECKING:
    import torch

    from probe.shared_states import SharedStates
    from probe.tasks import Examples


class PooledLayer(NamedTuple):
    """float32 `states` [texts, width]. `number` is 0 for the embedding output, else 1 + the layer's number in the
    original model."""

    number: int
    pooling: Pooling
    states: torch.Tensor


@dataclass(frozen=True)
class LayerStates:
    """Pooled states of texts: for each pooling, one [texts, width] a layer, under the layer's number."""

    numbers: tuple[int, ...]
    places: dict[str, int]
    pooled: dict[Pooling, list[np.ndarray]]

    @classmethod
    def read(
        cls, model: SharedStates, parts: Sequence[Examples], poolings: Sequence[Pooling], number_bytes: int = 4
    ) -> LayerStates:
        """States of the texts of these examples. NoRoom before they are read where there is not memory for them and
        for fits to them, in numbers of so many bytes."""
        texts = sorted({text for part in parts for text in part.texts})
        check_fit_memory(model, texts, len(texts), len(poolings), number_bytes)
        return cls(model.numbers, {text: i for i, text in enumerate(texts)}, pooled_states(model, texts, poolings))

    def of(self, examples: Examples) -> Iterator[PooledLayer]:
        """States of these texts, pooling by pooling and layer by layer."""
        import torch

        rows = [self.places[text] for text in examples.texts]
        for pooling, layers in self.pooled.items():
            for number, layer in zip(self.numbers, layers, strict=True):
                yield PooledLayer(number, pooling, torch.from_numpy(layer[rows]))
