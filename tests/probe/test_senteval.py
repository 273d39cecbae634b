"""Sentence-level tasks from files."""

from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from fake_models import Reader, context, split

from assay.core.errors import InputError
from probe.probe import Findings
from probe.probes.senteval import SentEvalProbe


def task(path: Path, seed: int, shuffled: bool = False) -> str:
    """Sentences whose label is told by their last word, or by nothing."""
    rng, lines = np.random.default_rng(seed), []
    for split_name, n in (("tr", 200), ("va", 5), ("te", 100)):
        for label in rng.integers(2, size=n):
            shown = rng.integers(2) if shuffled else label
            text = f"w{rng.integers(10**6)} w{rng.integers(99)} {('no', 'yes')[shown]}"
            lines.append(f"{split_name}\t{'NY'[label]}\t{text}")
    path.write_text("\n".join(lines))
    return str(path)


def planted(text: str) -> list[list[float]]:
    noise = np.random.default_rng(crc32(text.encode())).normal(size=6).tolist()
    return [noise[:3], [float(text.endswith("yes")), *noise[3:5]]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder = tmp_path_factory.mktemp("senteval")
    files = [task(folder / "ending.txt", 1), task(folder / "chance.txt", 2, shuffled=True)]
    model = Reader(planted, layers=(7,), heads=((0,),), padding=1)
    return SentEvalProbe(files=files, samples=150).run(model, context(split(["a row"])))


def test_a_planted_label_is_read_in_its_layer_and_one_of_chance_in_none(found: Findings) -> None:
    ending, chance = found.details["tasks"]
    assert (ending["task"], chance["task"]) == ("ending", "chance")
    assert (ending["n_train"], ending["n_test"]) == (150, 100)
    scores = {(layer["layer"], layer["pooling"]): layer["accuracy"] for layer in ending["layers"]}
    assert set(scores) == {(number, pooling) for number in (0, 8) for pooling in ("mean", "first")}
    assert scores[8, "mean"] == scores[8, "first"] == 1
    assert scores[0, "mean"] < 0.65
    assert all(layer["accuracy"] < 0.65 for layer in chance["layers"])


def test_headlines_are_named_by_the_file_and_bad_files_are_told_of_before(found: Findings, tmp_path: Path) -> None:
    assert [metric.name for metric in found.metrics][:2] == ["ending_accuracy", "ending_selectivity"]
    (tmp_path / "bad.txt").write_text("tr\tY\tfine\nte Y broken\n")
    with pytest.raises(InputError, match=r"bad.txt:2: 1 columns"):
        SentEvalProbe(files=[str(tmp_path / "bad.txt")]).check()
