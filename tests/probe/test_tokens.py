"""The probe of single words on planted states: what is there is found, where it is, and nothing else."""

from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from fake_models import Classifier, Reader, WordReader, context, split
from tiny_jobs import carry_out

from assay.core.artifact import Artifact
from assay.core.errors import InputError, NotGiven, SettingError
from assay.core.model.predict import open_predictor
from assay.core.stats import wilson_interval
from probe.by_sentence import change_interval, share_interval
from probe.mlp import fit_mlp
from probe.probe import Findings
from probe.probes.tokens import TokensProbe
from probe.word_tags import control_tags, micro_f1, share_by_word

FILES = Path(__file__).parent / "files"
RNG = np.random.default_rng(3)
ROWS = split(["one row", "another"])


def tagged(path: Path, sentences: int, seed: int) -> Path:
    """Sentences of 3 to 8 words. The tag is that of the word's ending, of the word before it, or none (`?`)."""
    rng, lines = np.random.default_rng(seed), []
    for _ in range(sentences):
        before = "0"
        for _ in range(rng.integers(3, 9)):
            own = str(rng.integers(2))
            lines.append(f"w{rng.integers(10**6)}_{own}\t{before}")
            before = own
        lines.append("")
    path.write_text("\n".join(lines))
    return path


def noise(key: str, size: int = 4) -> np.ndarray:
    return np.random.default_rng(crc32(key.encode())).normal(size=size)


def planted(words: list[str]) -> list[np.ndarray]:
    """Embeddings know the word; after layer 2 the ending of the word before is known, after layer 5 neither."""
    before = ["0", *(word[-1] for word in words[:-1])]
    own = np.stack([noise(word) for word in words])
    context_known = np.stack([[float(tag) - 0.5, *noise(word)[:3]] for tag, word in zip(before, words, strict=True)])
    return [own, context_known, np.stack([noise(word[::-1]) for word in words])]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tagged")
    return {"train": str(tagged(folder / "train", 150, 1)), "test": str(tagged(folder / "test", 80, 2))}


def run(files: dict[str, str], model: object = None, teacher: object = None, **settings: object) -> Findings:
    model = model or WordReader(planted, (2, 5))
    probe = TokensProbe(**files, **{"tags": "last_column"} | settings)  # type: ignore[arg-type]
    return probe.run(model, context(ROWS, teacher=teacher or model))  # type: ignore[arg-type]


@pytest.mark.parametrize("classifier", ["linear", pytest.param("mlp", marks=pytest.mark.slow)])
def test_a_planted_tag_is_found_in_its_layer_and_nowhere_else(files: dict[str, str], classifier: str) -> None:
    (task,) = run(files, classifier=classifier, hidden=8).details["tasks"]
    layers = {layer["layer"]: layer for layer in task["layers"]}
    assert list(layers) == [0, 3, 6]
    assert layers[3]["accuracy"] > 0.98
    assert layers[3]["selectivity"] > 0.3
    for number in (0, 6):
        assert layers[number]["low"] < task["majority"] + 0.02
        assert layers[number]["accuracy"] < 0.66
        assert abs(layers[number]["selectivity"]) < 0.15
    assert 0.4 < task["majority"] < 0.66
    assert task["chance"] == 0.5
    assert [each["cut"] for each in task["left_out"]] == [0, 0]


def test_a_probe_that_knows_words_by_heart_has_no_selectivity(tmp_path: Path) -> None:
    """Few word types with a state each, and a tag that is the word's own: the control is as easy."""
    lines = [f"word{at % 6}\t{'AB'[at % 6 > 2]}" + "\n" * (at % 5 == 4) for at in range(120)]
    for name in ("train", "test"):
        (tmp_path / name).write_text("\n".join(lines))
    one_hot = WordReader(lambda words: [np.eye(6)[[int(word[-1]) for word in words]]], ())
    (task,) = run({name: str(tmp_path / name) for name in ("train", "test")}, one_hot).details["tasks"]
    assert task["most_frequent_tag"] == 1
    assert task["layers"][0]["accuracy"] == 1
    assert task["layers"][0]["control"] > 0.9


def test_a_variant_is_compared_word_by_word_with_a_teacher_that_is_fitted_once(files: dict[str, str]) -> None:
    worse = WordReader(lambda words: [planted(words)[at] for at in (0, 2, 2)], (2, 5))
    teacher = WordReader(planted, (2, 5))
    ctx = context(ROWS, teacher=teacher)
    probe = TokensProbe(**files, tags="last_column")
    full = probe.run(teacher, ctx)
    assert full.details["tasks"][0]["teacher"] == []
    assert [metric.name for metric in full.metrics] == ["tags_accuracy", "tags_selectivity"]
    found = probe.run(worse, ctx)
    assert len(ctx.kept) == 2
    changes = {each["layer"]: each for each in found.details["tasks"][0]["teacher"]}
    assert changes[0]["change"] == changes[6]["change"] == 0
    assert changes[3]["high"] < -0.25
    by_layer = [{layer["layer"]: layer for layer in each.details["tasks"][0]["layers"]} for each in (full, found)]
    assert changes[3]["change"] == pytest.approx(by_layer[1][3]["accuracy"] - by_layer[0][3]["accuracy"])
    assert found.metrics[2].name == "tags_change"
    assert found.metrics[2].value == changes[6]["change"]


def test_words_that_are_cut_are_left_out_on_both_sides(tiny_artifact: Callable[..., Artifact], tmp_path: Path) -> None:
    """Also of the comparison, where the models read different lengths; layers keep their original numbers."""
    source = tiny_artifact(layers=3)
    pruned = carry_out(tmp_path, source, [("prune_layers", {"layers": [0, 2]})])
    files = {name: str(FILES / f"{name}.conllu") for name in ("train", "test")}
    short, full = open_predictor(pruned, 9), open_predictor(source, 32)
    found = TokensProbe(**files).run(short, context(ROWS, teacher=full))
    (task,) = found.details["tasks"]
    words = sum(line.split("\t")[0].isdigit() for line in (FILES / "test.conllu").read_text().splitlines())
    assert task["left_out"][1]["cut"] > 0
    assert task["n_test"] == words - task["left_out"][1]["cut"]
    assert [layer["layer"] for layer in task["layers"]] == [0, 1, 3]
    assert [each["layer"] for each in task["teacher"]] == [0, 1, 3]
    assert {each["n"] for each in task["teacher"]} == {task["n_test"]}
    assert task["layers"][0]["accuracy"] > task["majority"]


def test_f1_counts_what_is_found_beside_outside() -> None:
    tags = np.array(["O", "O", "B", "B", "I"])
    assert micro_f1(tags, tags) == 1
    assert micro_f1(np.array(["O", "B", "B", "O", "I"]), tags) == pytest.approx(2 * 2 / (3 + 3))
    assert micro_f1(np.array(["O"]), np.array(["O"])) is None
    reader = WordReader(lambda words: [np.stack([noise(word) for word in words])], ())
    (task,) = run({name: str(FILES / f"{name}.bio") for name in ("train", "test")}, reader).details["tasks"]
    assert 0 <= task["layers"][0]["f1"] <= 1


def test_control_tags_depend_on_the_word_alone_and_keep_the_proportions() -> None:
    like = np.array(["A"] * 3 + ["B"])
    words = [f"word{at}" for at in range(2000)]
    drawn = control_tags(words, like, seed=1)
    assert (drawn == control_tags(words[::-1], like, seed=1)[::-1]).all()
    assert (drawn != control_tags(words, like, seed=2)).any()
    assert 0.7 < (drawn == "A").mean() < 0.8


def test_the_lexicon_gives_each_word_its_commonest_tag_and_unknown_ones_that_of_all() -> None:
    assert (
        share_by_word(["a", "a", "b", "a"], ["X", "Y", "Z", "X"], ["a", "b", "new", "a"], ["X", "Z", "X", "Y"]) == 0.75
    )


def test_intervals_are_wilson_s_for_words_of_their_own_and_wider_where_sentences_differ() -> None:
    right, alone = RNG.random(400) < 0.7, np.arange(400)
    assert share_interval(right, alone) == pytest.approx(wilson_interval(int(right.sum()), 400), abs=2e-3)
    blocks = np.repeat(np.arange(20), 20)
    together = np.repeat(np.arange(20) % 2 == 0, 20)
    low, high = share_interval(together, blocks)
    assert high - low > 3 * (lambda bounds: bounds[1] - bounds[0])(wilson_interval(200, 400))
    assert share_interval(np.ones(30, bool), np.arange(30)) == pytest.approx(wilson_interval(30, 30))
    low, high = change_interval(together.astype(float), blocks)
    assert low is not None
    assert low < 0.5 < (high or 0)


def test_a_hidden_layer_learns_what_no_line_parts_and_gives_the_same_again() -> None:
    import torch

    features = torch.from_numpy(RNG.choice([-1.0, 1.0], size=(600, 2))).float()
    labels = np.where((features[:, 0] * features[:, 1]).numpy() > 0, "same", "other")
    found, again = (fit_mlp(features, labels, 16, seed=4) for _ in range(2))
    assert (found.predict(features) == labels).mean() > 0.95
    assert torch.equal(found.inner, again.inner)


def test_what_cannot_be_probed_says_why(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NotGiven, match="logits only"):
        run(files, Classifier(lambda text: [1.0, 0.0]))
    with pytest.raises(NotGiven, match="does not show its tokenizer"):
        run(files, Reader(lambda text: [[0.0]]))
    (tmp_path / "one").write_text("\n".join(f"w{at} A" for at in range(20)))
    found = run({"train": str(tmp_path / "one"), "test": str(tmp_path / "one")}, WordReader(planted, (2, 5)))
    assert found.metrics == []
    assert found.details["tasks"][0]["skipped"] == "not trainable: all 20 train words have one tag"
    (tmp_path / "few").write_text("a0 A\nb1 B\n")
    few = run(files | {"train": str(tmp_path / "few")})
    assert "not trainable: 2 train and" in few.details["tasks"][0]["skipped"]


def test_files_are_checked_before_any_training_and_named(files: dict[str, str], tmp_path: Path) -> None:
    TokensProbe(**files, tags="last_column").check()
    with pytest.raises(InputError, match=r"train:1: 2 columns parted by tabs, CoNLL-U has 10"):
        TokensProbe(**files).check()
    with pytest.raises(SettingError, match="no such file"):
        TokensProbe(train=files["train"], test=str(tmp_path / "none")).inputs()
