"""The edit that runs layers again right after themselves (Kao et al. 2020, "BERT's output layer recognizes all hidden
layers?", https://arxiv.org/abs/2001.09309)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from assay.core.errors import InputError
from assay.core.model.edit import Edit
from assay.core.model.layout import LayerLayout, Layout


@dataclass(frozen=True)
class DuplicateLayers(Edit):
    """Each of `layers` is run `times` in all, with the weights that it has. `of`: layers present before, one number a
    stack.

    The repeats are layers of their own numbers, which go on from those given so far: in a model of 6 layers the first
    repeat is layer 6, wherever it runs."""

    layers: Sequence[int]
    times: int
    of: int | Sequence[int]
    kind: ClassVar[str] = "duplicate_layers"
    cuts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(sorted(self.layers)))
        object.__setattr__(self, "of", (self.of,) if isinstance(self.of, int) else tuple(self.of))

    def apply(self, layout: Layout) -> Layout:
        """InputError for another depth, a layer that is named twice or not there, and fewer than two times."""
        if self.of != layout.depths:
            made, found = (" + ".join(map(str, depths)) for depths in (self.depths, layout.depths))
            raise InputError(f"duplicate_layers: made for a model of {made} layers, this one has {found}")
        if self.times < 2:
            raise InputError(f"duplicate_layers: times {self.times} repeats nothing; give 2 or more")
        if len(set(self.layers)) < len(self.layers):
            raise InputError(f"duplicate_layers: layers {list(self.layers)} name one twice")
        for number in self.layers:
            layout.layer(number, self.kind)
        layers = tuple(self._with_repeats(layout))
        return replace(layout, layers=layers, numbered=layout.numbered + len(layers) - len(layout.layers))

    def to_json(self) -> dict[str, Any]:
        of = self.depths[0] if len(self.depths) == 1 else list(self.depths)
        return {"edit": self.kind, "layers": list(self.layers), "times": self.times, "of": of}

    @property
    def depths(self) -> tuple[int, ...]:
        """`of`, as one number a stack."""
        return self.of  # type: ignore[return-value]

    def _with_repeats(self, layout: Layout) -> Iterator[LayerLayout]:
        number = layout.numbered
        for layer in layout.layers:
            yield layer
            for _ in range((self.times - 1) * (layer.index in self.layers)):
                yield replace(layer, index=number, weights=layer.owner)
                number += 1
