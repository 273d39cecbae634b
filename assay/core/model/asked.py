"""Name tokens at the asked places only: the head over the vocabulary is most of a small language model's work.

A hook hands the head the states of those places in the place of all states. What a head does, it does token by token.
"""

from __future__ import annotations

from threading import local
from typing import Any

import torch
from torch import Tensor, nn

from assay.core.errors import AssayError


class AskedPlaces:
    """Goes with one language model, which several threads may ask at once; called otherwise, the model answers as ever.
    `remove` it to leave the model as it was."""

    def __init__(self, model: Any) -> None:
        self._model, self._mine = model, local()
        self.remove = model.base_model.register_forward_hook(self._hook).remove

    def output(self, inputs: dict[str, Tensor], asked: Tensor, **also: Any) -> Any:
        """What the model returns for `inputs`, its `logits` [asked, vocabulary] row by row; `asked` is bool [batch,
        tokens]. AssayError where its head does not read what its base returns."""
        self._mine.asked = asked
        try:
            out = self._model(**inputs, **also)
        finally:
            self._mine.asked = None
        out.logits = out.logits[0]
        if len(out.logits) != int(asked.sum()):
            raise AssayError(f"{type(self._model).__name__} names tokens at other places than those that are asked")
        return out

    def _hook(self, module: nn.Module, args: Any, output: Any) -> Any:
        asked = getattr(self._mine, "asked", None)
        if asked is not None:
            output["last_hidden_state"] = output["last_hidden_state"][asked][None]  # [1, asked, width]
        return output


def asked_output(model: nn.Module, inputs: dict[str, Tensor], asked: Tensor, **also: Any) -> Any:
    """What `AskedPlaces.output` gives, once; the model is as it was afterwards."""
    places = AskedPlaces(model)
    try:
        return places.output(inputs, asked, **also)
    finally:
        places.remove()


def asked_mask(places: list[list[int]], shape: tuple[int, ...]) -> Tensor:
    """bool [batch, tokens], True at the places of each row."""
    asked = torch.zeros(shape, dtype=torch.bool)
    for row, at in enumerate(places):
        asked[row, at] = True
    return asked
