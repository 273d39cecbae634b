"""Edge probes on planted states."""

import json
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import torch
from fake_models import WordReader, context, split

from assay.core.artifact import Artifact
from assay.core.model.predict import TorchPredictor
from probe.edge_probes import EdgeProbes
from probe.edge_reading import EdgeReading
from probe.layer_pieces import LayerPieces
from probe.probe import Findings
from probe.probes.edges import EdgesProbe, expected_layer
from probe.word_pieces import AlignedWords

FILES = {name: str(Path(__file__).parent / "files" / f"{name}.conllu") for name in ("train", "test")}
NAMES = ("left", "right", "far")


def treebank(path: Path, sentences: int, seed: int) -> str:
    """Words w{number}_{relation}, each to the first word; the relation is told by the end of the word alone."""
    rng, lines = np.random.default_rng(seed), []
    for _ in range(sentences):
        for at in range(1, rng.integers(4, 8)):
            name = NAMES[rng.integers(3)] if at > 1 else "root"
            word = f"w{rng.integers(10**6)}_{name}"
            lines.append("\t".join([str(at), word, "_", "X", "_", "_", str(int(at > 1)), f"{name}:sub", "_", "_"]))
        lines.append("")
    path.write_text("\n".join(lines))
    return str(path)


def noise(key: str) -> np.ndarray:
    return np.random.default_rng(crc32(key.encode())).normal(size=6)


def planted(words: list[str]) -> list[np.ndarray]:
    """The relation is in the states after layer 4 alone; layer 9 is noise, as is the embedding output."""
    kinds = [word.rsplit("_", 1)[1] for word in words]
    marks = [[4.0 * (kind == name) for name in NAMES] for kind in kinds]
    known = [[*mark, *noise(word)[:3]] for mark, word in zip(marks, words, strict=True)]
    return [np.stack([noise(f"{word} {at}") for word in words]) if at != 1 else np.array(known) for at in range(3)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("trees")
    return {"train": treebank(folder / "train", 150, 1), "test": treebank(folder / "test", 60, 2)}


def run(files: dict[str, str], model: WordReader, **settings: object) -> Findings:
    given = {"projection": 8, "hidden": 16, "epochs": 8} | settings
    return EdgesProbe(**files, **given).run(model, context(split(["a row"])))  # type: ignore[arg-type]


@pytest.mark.parametrize("spans", ["attention", "mean"])
def test_a_planted_relation_is_found_where_it_is(files: dict[str, str], spans: str) -> None:
    details = run(files, WordReader(planted, (4, 9)), spans=spans).details
    scores = {layer["layer"]: layer["cumulative"] for layer in details["layers"]}
    assert list(scores) == [0, 5, 10]
    assert scores[0] < 0.5
    assert scores[5] > 0.95
    assert details["expected_layer"] == pytest.approx(5, abs=0.3)
    weights = {layer["layer"]: layer["weight"] for layer in details["layers"]}
    assert sum(weights.values()) == pytest.approx(1)
    assert max(weights, key=lambda number: weights[number]) == 5
    assert details["centre_of_gravity"] == pytest.approx(sum(number * share for number, share in weights.items()))
    assert details["selectivity"] > 0.4
    assert details["relations"] == 3  # subtypes do not count


def test_noise_stays_near_the_commonest_relation(files: dict[str, str]) -> None:
    details = run(files, WordReader(lambda words: [np.stack([noise(word) for word in words])] * 3, (4, 9))).details
    assert all(layer["cumulative"] < 0.5 for layer in details["layers"])
    assert details["majority"] < 0.45


def test_the_expected_layer_is_the_mean_of_the_gains() -> None:
    assert expected_layer([0.5, 0.6, 0.9], (0, 3, 6)) == pytest.approx((3 * 0.1 + 6 * 0.3) / 0.4)
    assert expected_layer([0.5, 0.5], (0, 1)) is None


def test_a_probe_sees_only_its_layers_and_pieces_are_pooled_as_said() -> None:
    probes = EdgeProbes.start(layers=3, width=4, classes=2, size=3, hidden=5, pooling="mean", seed=1)
    assert probes.shares.tolist()[0] == [1, 0, 0]
    assert probes.shares[-1].tolist() == pytest.approx([1 / 3] * 3)
    tokens = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(2))
    places, real = torch.tensor([[0, 1], [2, 2], [3, 4]]), torch.tensor([[True, True], [True, False], [True, True]])
    first, second = torch.tensor([0, 1]), torch.tensor([1, 2])
    logits = probes.logits(tokens, (places, real), first, second)
    assert logits.shape == (4, 2, 2)
    blind = tokens.clone()
    blind[:, 1:] += 7
    assert torch.equal(probes.logits(blind, (places, real), first, second)[0], logits[0])
    assert not torch.allclose(probes.logits(blind, (places, real), first, second)[1], logits[1])
    means = torch.stack([tokens[[0, 1]].mean(0), tokens[2], tokens[[3, 4]].mean(0)])
    single = probes.logits(means, (torch.arange(3)[:, None], torch.ones(3, 1).bool()), first, second)
    torch.testing.assert_close(single, logits)


def test_too_few_pairs_say_so(files: dict[str, str], tmp_path: Path) -> None:
    found = run(files | {"train": treebank(tmp_path / "few", 1, 5)}, WordReader(planted, (4, 9)))
    assert "train and" in (found.skipped or "")
    assert "needs 10 and 5" in (found.skipped or "")


def span_file(path: Path, sentences: int, seed: int, sides: int, chance: bool = False) -> str:
    """Words w{number}_{kind}, all of the kind far but the first of each of two spans, or the first and the last of one:
    they are left or right, and the label tells both; of one span which of them are there, in whatever order."""
    rng, lines = np.random.default_rng(seed), []
    for _ in range(sentences):
        kinds, targets = ["far"] * 8, []
        for start in (0, 4):
            ends = [NAMES[at] for at in rng.integers(2, size=2)]
            kinds[start], kinds[start + 2] = ends
            pair = {"span1": [start, start + 2], "span2": [start + 2, start + 4]}
            spans = pair if sides == 2 else {"span1": [start, start + 3]}
            label = " ".join(ends if sides == 2 else sorted(ends))
            targets.append(spans | {"label": f"{rng.integers(3)}" if chance else label})
        text = " ".join(f"w{rng.integers(10**6)}_{kind}" for kind in kinds)
        lines.append(json.dumps({"text": text, "targets": targets}))
    path.write_text("\n".join(lines))
    return str(path)


def span_files(folder: Path, sides: int, chance: bool = False) -> dict[str, str]:
    return {
        "train": span_file(folder / "train.jsonl", 200, 1, sides, chance),
        "test": span_file(folder / "test.jsonl", 60, 2, sides, chance),
    }


@pytest.mark.parametrize("sides", [1, 2])
def test_a_label_that_needs_both_ends_is_found_where_it_is(tmp_path: Path, sides: int) -> None:
    """Who knows one end alone is right half the time; so is the commonest label of single spans."""
    details = run(span_files(tmp_path, sides), WordReader(planted, (4, 9)), epochs=12).details
    scores = {layer["layer"]: layer["cumulative"] for layer in details["layers"]}
    assert scores[0] < 0.65
    assert scores[5] > 0.9
    assert details["selectivity"] > 0.3
    assert max(details["layers"], key=lambda layer: layer["weight"])["layer"] == 5
    assert (details["relations"], details["n_train"], details["n_test"]) == (sides + 2, 400, 120)


def test_spans_with_labels_by_chance_stay_near_chance(tmp_path: Path) -> None:
    details = run(span_files(tmp_path, 1, chance=True), WordReader(planted, (4, 9))).details
    assert all(0.2 < layer["cumulative"] < 0.5 for layer in details["layers"])
    assert abs(details["selectivity"]) < 0.2


def test_the_pieces_of_a_span_are_those_of_all_its_words() -> None:
    words = AlignedWords(["a bb c", "d e"], [6, 4], [[[1], [2, 3], [4]], [[], [2]]], vanished=1, cut=0)
    states = LayerPieces(words, files=None, scale=torch.ones(1))  # type: ignore[arg-type]
    places, real = states.pieces([1, 0], [[(1, 2)], [(0, 2), (1, 3)]])
    assert [row[keep].tolist() for row, keep in zip(places, real, strict=True)] == [[2], [5, 6, 7], [6, 7, 8]]
    places, real = states.pieces([1, 0])
    assert [row[keep].tolist() for row, keep in zip(places, real, strict=True)] == [[2], [5], [6, 7], [8]]


def test_single_spans_of_a_real_model_and_those_that_are_not_whole_in_it(
    tmp_path: Path, tiny_artifact: Callable[..., Artifact]
) -> None:
    """The variant reads 12 tokens, of which two are separators; the teacher all."""
    kinds = {"good": "mood", "dull": "mood", "film": "thing", "story": "thing", "music": "thing"}
    rng, path = np.random.default_rng(3), tmp_path / "spans.jsonl"
    spans, lines = ([0, 2], [3, 6], [8, 11]), []
    for _ in range(20):
        nouns = rng.choice(list(kinds), 3).tolist()
        text = f"the {nouns[0]} was a great {nouns[1]} the acting with a {nouns[2]}"
        targets = [{"span1": span, "label": kinds[noun]} for span, noun in zip(spans, nouns, strict=True)]
        lines.append(json.dumps({"text": text, "targets": targets}))
    path.write_text("\n".join(lines))
    artifact, teacher = tiny_artifact(layers=2), tiny_artifact(layers=2, seed=7)
    probe = EdgesProbe(train=str(path), test=str(path), epochs=2)
    full, cut = (
        probe.run(
            TorchPredictor(artifact, length), context(split(["a row"]), teacher=TorchPredictor(teacher, 32))
        ).details
        for length in (32, 12)
    )
    assert [full["n_test"], cut["n_test"]] == [60, 40]
    assert [part["targets"] for part in full["left_out"] + cut["left_out"]] == [0, 0, 20, 20]
    assert [change["n"] for change in full["teacher"]] == [60] * 3
    assert [change["n"] for change in cut["teacher"]] == [40] * 3
    assert all(-1 < change["change"] < 1 for change in cut["teacher"])


@pytest.mark.slow
def test_a_variant_is_compared_with_the_teacher_word_by_word(files: dict[str, str]) -> None:
    """A variant in which layer 4 forgot; the embedding output is the same."""
    full, forgot = (
        WordReader(planted, (4, 9)),
        WordReader(lambda words: [planted(words)[at] for at in (0, 2, 2)], (4, 9)),
    )
    probe = EdgesProbe(**files, projection=8, hidden=16, epochs=8)  # type: ignore[arg-type]
    ctx = context(split(["a row"]), teacher=full)
    assert probe.run(full, ctx).details["teacher"] == []
    found = probe.run(forgot, ctx)
    changes = {change["layer"]: change for change in found.details["teacher"]}
    assert list(changes) == [0, 5, 10]
    assert changes[0]["low"] <= 0 <= changes[0]["high"]
    assert changes[5]["high"] < -0.2
    assert {change["n"] for change in changes.values()} == {found.details["n_test"]}
    assert {metric.name: metric.value for metric in found.metrics}["edges_change"] == changes[10]["change"]


def test_a_variant_without_the_top_layer_is_compared_with_all_that_its_teacher_has() -> None:
    """Only the teacher has layer 9, where everything is lost; with the same layers nothing changes."""
    lower = {0: np.array([0.0, 1.0]), 5: np.array([1.0, 1.0])}
    owners = np.array([0, 1])
    own = EdgeReading(None, {}, lower, owners)
    theirs = EdgeReading(None, {}, lower | {10: np.array([0.0, 0.0])}, owners)
    assert [change["change"] for change in own.changes(theirs)] == [0, 0]
    assert own.change(theirs)["change"] == 1


def test_rows_without_a_sentence_or_a_common_label_are_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = EdgesProbe(**FILES)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(EdgesProbe, "_targets", lambda self, ctx: [[], []])  # as rows without a word give
        found = probe.run(WordReader(planted, (4, 9)), context(split([""])))
    assert found.skipped == "no sentence to train on or to test on"
    files = {}
    for name, labels in (("train", ("near", "far")), ("test", ("left", "left"))):
        lines = [
            {"text": f"w{at}_left w{at}_far", "targets": [{"span1": [0, 1], "label": labels[at % 2]}]}
            for at in range(20)
        ]
        files[name] = str(tmp_path / f"{name}.jsonl")
        Path(files[name]).write_text("\n".join(map(json.dumps, lines)))
    assert run(files, WordReader(planted, (4, 9))).skipped == (
        "no label of a test target is in training, which has far, near"
    )
