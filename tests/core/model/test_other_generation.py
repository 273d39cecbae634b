"""A folder that one generation of transformers wrote answers the same under the other, in both directions.

Needs both environments; `make test-next`, which is the second to be built, asks for both directions at once.
`tests/two_generations.py` has the questions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from by_family import OF_IMAGES
from two_generations import CLASSES, answers, write_all

from assay.core.model.generations import generation

ROOT = Path(__file__).parents[3]
OTHER = ROOT / ".venv/bin/python"
pytestmark = [
    pytest.mark.skipif(generation() == 4, reason="make test-next asks in both directions"),
    pytest.mark.skipif(not OTHER.is_file(), reason=f"no {OTHER}: the other environment is not built"),
]
NAMES = [*(f"{family}-{kind}" for family in CLASSES for kind in ("generic", "own")), "bert-custom"]
NAMES += ["roberta-uneven", "roberta-graph", *OF_IMAGES, *(f"{family}-uneven" for family in OF_IMAGES)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """`ours` and `theirs`: the folders that each wrote, answered by (us, the other)."""
    folder = tmp_path_factory.mktemp("generations")
    write_all(folder / "ours")
    command = [str(OTHER), str(ROOT / "tests/two_generations.py"), str(folder / "ours"), str(folder / "theirs")]
    subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}, check=True, capture_output=True)
    other = json.loads((folder / "answers.json").read_text())
    assert int(other["version"][0]) == 9 - generation()
    return {
        "ours": (answers(folder / "ours"), other["given"]),
        "theirs": (answers(folder / "theirs"), other["made"]),
    }


@pytest.mark.parametrize("writer", ["ours", "theirs"])
@pytest.mark.parametrize("name", NAMES)
def test_both_read_the_same_ids_and_answer_the_same(name: str, writer: str, told: dict[str, Any]) -> None:
    here, there = (side[name] for side in told[writer])
    assert here["ids"] == there["ids"]
    assert len({tuple(row) for row in here["ids"]}) == 5
    for row, other in zip(here["logits"], there["logits"], strict=True):
        assert row == pytest.approx(other, abs=1e-5)


def test_a_normalizer_of_its_own_is_heard(told: dict[str, Any]) -> None:
    for writer in ("ours", "theirs"):
        here, _ = told[writer]
        assert here["bert-custom"]["ids"] != here["bert-own"]["ids"]
