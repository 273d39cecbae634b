"""What a probe looks at: the graph that ships where it shows what the probe needs, the weights behind it otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from assay.core.artifact import Artifact
from assay.core.data.prepare import JobData, Split
from assay.core.errors import NoRoom, NotGiven
from assay.core.model.predict import Predictor
from assay.run.examine import Examiner, Subject
from assay.run.progress import Display
from probe.probe import Findings, Probe, ProbeContext

WEIGHTS = Artifact(Path("weights"), "w", "torch", "text-classification", "bert")
GRAPH = Artifact(Path("graph"), "g", "onnx", "text-classification", "bert")


@pytest.mark.parametrize(
    ("needs", "shows_states", "examined"),
    [
        ("logits", False, GRAPH),
        ("states", False, WEIGHTS),
        ("states", True, GRAPH),
        ("torch", True, WEIGHTS),
    ],
)
def test_of_a_graph(needs: str, shows_states: bool, examined: Artifact) -> None:
    found, called = Subject("slim", GRAPH, WEIGHTS, shows_states).examined(needs)
    assert found == examined
    assert called == ("graph" if examined is GRAPH else "torch weights before export")


@pytest.mark.parametrize("needs", ["logits", "states", "torch"])
def test_of_weights_the_weights(needs: str) -> None:
    assert Subject("half", WEIGHTS, WEIGHTS).examined(needs) == (WEIGHTS, "torch weights")


class Hungry(Probe):
    """Has no room at first."""

    refusals: ClassVar[list[NotGiven]] = []

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        if self.refusals:
            raise self.refusals.pop()
        return Findings(details={"read": True})


@pytest.mark.parametrize(("refusal", "final"), [(NotGiven("no such states"), True), (NoRoom("too little"), False)])
def test_what_there_was_no_room_for_is_tried_again(refusal: NotGiven, final: bool, tmp_path: Path) -> None:
    Hungry.refusals[:] = [refusal]
    nothing = Split([], np.array([], dtype=np.int64), [])
    data = JobData(nothing, nothing, nothing, ("no", "yes"), "text-classification", "f")
    examiner = Examiner(tmp_path, data, 13, WEIGHTS, [("hungry", Hungry())], Display({}), {})
    examiner.open = lambda artifact: None  # type: ignore[assignment]
    subject, path = Subject("half", WEIGHTS, WEIGHTS), tmp_path / "results" / "half" / "probes" / "hungry.json"
    examiner._probe(subject, "hungry", Hungry(), "key")
    first = json.loads(path.read_text())
    assert (first["key"], first["skipped"], first["failed"]) == ("key" if final else None, str(refusal), None)
    examiner._probe(subject, "hungry", Hungry(), "key")
    assert json.loads(path.read_text())["details"] == ({} if final else {"read": True})
    assert examiner.failed == []
