"""States changed on the way from one layer to the next."""

from collections.abc import Callable

import pytest
import torch
from by_family import KINDS, families

from assay.core.artifact import Artifact
from assay.core.errors import AssayError
from assay.core.model.anatomy import family_of
from assay.core.model.change_states import change_states
from assay.core.model.predict import TorchPredictor, open_predictor

TEXTS = ["the film was a great story", "dull acting", ""]


def opened(artifact: Artifact) -> TorchPredictor:
    model = open_predictor(artifact, 32)
    assert isinstance(model, TorchPredictor)
    return model


@pytest.mark.parametrize("family", families(*KINDS))
def test_what_leaves_a_layer_is_what_the_next_one_gets(family: str, tiny_artifact: Callable[..., Artifact]) -> None:
    """Zeros in the place of a layer's states make all that came before it meaningless, and nothing else."""
    model = opened(tiny_artifact(family, layers=3))
    anatomy = family_of(model.artifact.family)
    plain = model.logits(TEXTS)
    with change_states(model.module, anatomy, 1, torch.clone):
        assert (model.logits(TEXTS) == plain).all()
    with change_states(model.module, anatomy, 2, torch.zeros_like):
        blank = model.logits(TEXTS)
    assert blank[0] == pytest.approx(blank[1], abs=1e-6)
    assert abs(plain[0] - plain[1]).max() > 1e-3
    assert (model.logits(TEXTS) == plain).all()


def test_the_states_that_are_changed_are_those_that_the_layer_gives(tiny_artifact: Callable[..., Artifact]) -> None:
    model = opened(tiny_artifact(layers=3))
    (batch,) = model.states(TEXTS[:1])
    seen: list[torch.Tensor] = []
    with change_states(model.module, family_of("bert"), 1, lambda states: seen.append(states) or states):  # type: ignore[func-returns-value]
        model.logits(TEXTS[:1])
    assert torch.allclose(seen[0], batch.hidden[2], atol=1e-6)
    assert not torch.allclose(seen[0], batch.hidden[1], atol=1e-2)


def test_another_shape_is_refused_and_the_hook_goes(tiny_artifact: Callable[..., Artifact]) -> None:
    model = opened(tiny_artifact(layers=2))
    plain = model.logits(TEXTS)
    shapes = r"changed states are \[3, \d+, 31\], the layer's are \[3, \d+, 32\]"
    with (
        pytest.raises(AssayError, match=shapes),
        change_states(model.module, family_of("bert"), 0, lambda states: states[..., 1:]),
    ):
        model.logits(TEXTS)
    assert (model.logits(TEXTS) == plain).all()
