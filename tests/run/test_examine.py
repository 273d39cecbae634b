"""What a probe looks at: the graph that ships where it shows what the probe needs, the weights behind it otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.artifact import Artifact
from assay.run.examine import Subject

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
