"""What is told of the teacher beside a variant."""

from dataclasses import replace

import pytest
from fake_models import ARTIFACT, Classifier, context, split

from assay.core.errors import NoRoom, NotGiven
from assay.core.model.predict import Predictor
from probe.against_teacher import with_teacher
from probe.probes.linear import LinearProbe


@pytest.mark.parametrize(("reason", "raised"), [(NotGiven("no states"), False), (NoRoom("too little"), True)])
def test_a_teacher_without_room_is_asked_again_and_one_without_states_is_not(reason: NotGiven, raised: bool) -> None:
    variant, teacher = (Classifier(lambda text: [0.0, 1.0]) for _ in range(2))
    variant.artifact = replace(ARTIFACT, key="variant")
    ctx = context(split(["a row"]), teacher=teacher)

    def find(of: Predictor) -> str:
        if of is teacher:
            raise reason
        return "found"

    if raised:
        with pytest.raises(NoRoom):
            with_teacher(LinearProbe(), variant, ctx, find)
    else:
        assert with_teacher(LinearProbe(), variant, ctx, find) == ("found", None)
