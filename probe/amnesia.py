"""A model at its own task while something is erased from its states (amnesic probing, Elazar et al. 2021,
https://arxiv.org/abs/2006.00995)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.errors import NotGiven
from assay.core.stats import bootstrap_interval

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor, TorchPredictor
    from probe.leace import Eraser
    from probe.tasks import Examples


@dataclass(frozen=True)
class Amnesia:
    """`rows` have the job's own classes; `right` is bool [rows]: those that the untouched model gets right."""

    model: TorchPredictor
    rows: Examples
    right: np.ndarray
    seed: int

    @classmethod
    def of(cls, model: Predictor, rows: Examples, seed: int) -> Amnesia:
        """NotGiven for a model that is not a torch module, whose states cannot be changed on the way."""
        from assay.core.model.predict import TorchPredictor

        if not isinstance(model, TorchPredictor):
            raise NotGiven(
                f"{model.artifact.path.name} is no torch module, amnesic probing hooks one; set amnesic: none"
            )
        return cls(model, rows, _right(model, rows), seed)

    def untouched(self) -> dict[str, Any]:
        """Accuracy with nothing erased."""
        return {"accuracy": float(self.right.mean()), "n": len(self.right)}

    def behind(self, position: int, eraser: Eraser) -> dict[str, Any]:
        """Accuracies with every token's state erased as it leaves the layer at this position among those present, and
        with as many random directions lost in the place of the property's. `change` is the first less the second, with
        its 95 % bootstrap interval over rows: below 0 where the model used the property."""
        from probe.leace import random_eraser

        forgetful, control = eraser, random_eraser(eraser.mean, eraser.rank, self.seed)
        erased, random = (self._right_with(position, each).astype(float) for each in (forgetful, control))
        low, high = bootstrap_interval(np.mean, erased - random)
        return {
            "erased": float(erased.mean()),
            "random": float(random.mean()),
            "change": float((erased - random).mean()),
            "low": low,
            "high": high,
            "n": len(erased),
        }

    def _right_with(self, position: int, eraser: Eraser) -> np.ndarray:
        from assay.core.model.anatomy import family_of
        from assay.core.model.change_states import change_states

        with change_states(self.model.module, family_of(self.model.artifact.family), position, eraser):
            return _right(self.model, self.rows)


def _right(model: TorchPredictor, rows: Examples) -> np.ndarray:
    """Asks the class, past any memory of answers that the model may have been given: hooks change the answers."""
    return np.asarray(type(model).logits(model, rows.texts).argmax(1) == rows.labels)
