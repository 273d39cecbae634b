"""The structural probe: a planted tree is recovered, and a random control is not."""

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from fake_models import WordEncoder, WordReader, context, split
from scipy.stats import spearmanr

from probe.probe import Findings
from probe.probes.structure import StructureProbe
from probe.syntax_distance import tree_of
from probe.tree_scores import mean_by_length, right_edges, row_correlation, spanning_tree


def treebank(path: Path, sentences: int, seed: int) -> str:
    """Random trees of 5 to 9 words; each word carries its way to the root, and the last one is punctuation."""
    rng, lines = np.random.default_rng(seed), []
    for number in range(sentences):
        n = int(rng.integers(5, 10))
        order = rng.permutation(n - 1)  # the first is the root, the others hang on one before them
        heads = {int(order[0]): -1} | {int(order[at]): int(order[rng.integers(at)]) for at in range(1, n - 1)}
        heads[n - 1] = int(order[0])
        for at in range(n):
            upos = "PUNCT" if at == n - 1 else "X"
            word = f"{number}_{'_'.join(map(str, way(at, heads)))}"
            lines.append("\t".join([str(at + 1), word, "_", upos, "_", "_", str(heads[at] + 1), "dep", "_", "_"]))
        lines.append("")
    path.write_text("\n".join(lines))
    return str(path)


def way(at: int, heads: dict[int, int]) -> list[int]:
    return [at] if heads[at] < 0 else [at, *way(heads[at], heads)]


def exact(word: str) -> np.ndarray:
    """A dimension for each word of the sentence but the root, 1 for those on the way up: squared distances are tree
    distances, and squared lengths are depths. Three dimensions of noise come along."""
    vector = np.zeros(10)
    vector[[int(place) for place in word.split("_")[1:-1]]] = 1
    return np.concatenate([vector, noise(word)[:3]])


def noise(word: str) -> np.ndarray:
    return np.random.default_rng(crc32(word.encode())).normal(size=13)


TURN = np.linalg.qr(np.random.default_rng(1).normal(size=(13, 13)))[0]


def planted(words: list[str]) -> list[np.ndarray]:
    return [np.stack([noise(word) for word in words]), np.stack([exact(word) for word in words]) @ TURN]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder = tmp_path_factory.mktemp("trees")
    files = {"train": treebank(folder / "train", 100, 1), "test": treebank(folder / "test", 40, 2)}
    probe = StructureProbe(**files, rank=13, epochs=25)  # type: ignore[arg-type]
    return probe.run(WordReader(planted, (3,)), context(split(["a row"])))


def test_a_planted_tree_is_recovered_and_noise_gives_none(found: Findings) -> None:
    random, tree = found.details["layers"]
    assert (random["layer"], tree["layer"]) == (0, 4)
    assert tree["uuas"] > 0.95
    assert min(tree["distance_spearman"], tree["depth_spearman"]) > 0.9
    assert tree["root_accuracy"] > 0.9
    assert random["uuas"] < 0.5
    assert random["distance_spearman"] < 0.6
    assert random["high"] < tree["low"] < tree["uuas"] <= tree["high"]
    assert found.details["best_layer"] == 4


def test_the_headline_is_that_of_the_best_layer_beside_next_words(found: Findings) -> None:
    values = {metric.name: metric.value for metric in found.metrics}
    assert values["structure_uuas"] == found.details["layers"][1]["uuas"]
    assert values["structure_best_layer"] == 4
    assert 0.1 < found.details["next_word_uuas"] < 0.6
    assert found.details["layers"][0]["edges"] == found.metrics[0].n


@pytest.mark.slow
def test_a_variant_is_compared_with_the_teacher_edge_by_edge(tmp_path: Path) -> None:
    """A variant that forgot the trees, and the sentences that it cannot read do not count."""
    files = {"train": treebank(tmp_path / "train", 40, 1), "test": treebank(tmp_path / "test", 20, 2)}
    probe = StructureProbe(**files, rank=13, epochs=15)  # type: ignore[arg-type]
    full = WordReader(planted, (3,))
    forgot = WordReader(lambda words: [planted(words)[0]] * 2, (3,))
    forgot.encoder = Forgetful()
    ctx = context(split(["a row"]), teacher=full)
    assert probe.run(full, ctx).details["teacher"] == []
    found = probe.run(forgot, ctx)
    unchanged, lost = found.details["teacher"]
    assert (unchanged["layer"], lost["layer"]) == (0, 4)
    assert unchanged["low"] <= 0 <= unchanged["high"]
    assert lost["high"] < -0.2
    values = {metric.name: metric for metric in found.metrics}
    assert values["structure_change"].value < -0.2
    assert values["structure_change"].n == found.details["layers"][0]["edges"]


def test_tree_distances_are_counted_by_edges() -> None:
    tree = tree_of([1, -1, 1, 2], [1, 0, 1, 2])
    assert tree.distances.tolist() == [[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]]
    assert tree.depths.tolist() == [1, 0, 1, 2]


def test_the_least_spanning_tree_of_tree_distances_is_the_tree_and_words_left_out_are_not_in_it() -> None:
    gold = tree_of([1, -1, 1, 2], [1, 0, 1, 2]).distances.numpy()
    assert spanning_tree(gold, range(4)) == {(0, 1), (1, 2), (2, 3)}
    assert spanning_tree(gold, [0, 1, 3]) == {(0, 1), (1, 3)}
    assert spanning_tree(gold, [2]) == set()
    swapped = gold[[1, 0, 2, 3]][:, [1, 0, 2, 3]]
    assert right_edges(swapped, gold, range(4)).tolist() == [True, False, True]


def test_rank_correlations_are_scipy_s_row_by_row() -> None:
    rng = np.random.default_rng(5)
    told, gold = rng.normal(size=(6, 6)), rng.integers(0, 4, size=(6, 6)).astype(float)
    expected = np.mean([spearmanr(one, other).statistic for one, other in zip(told, gold, strict=True)])
    assert row_correlation(told, gold) == pytest.approx(expected)
    assert row_correlation(told[0], gold[0]) == pytest.approx(spearmanr(told[0], gold[0]).statistic)
    assert row_correlation(np.ones(5), gold[0][:5]) is None


def test_lengths_count_alike_and_only_those_from_5_to_50() -> None:
    assert mean_by_length([1.0, 0.0, 0.5, 0.0, 0.0, None], [5, 6, 6, 4, 51, 7]) == pytest.approx((1 + 0.25) / 2)
    assert mean_by_length([1.0], [4]) is None


class Forgetful(WordEncoder):
    """Drops all but the first word of the sentences whose words begin with 0."""

    def offsets(self, texts: Sequence[str], cut: bool = True) -> list[list[tuple[int, int] | None]]:
        read = super().offsets(texts, cut)
        return [
            [*spans[:2], *[None] * (len(spans) - 2)] if text.startswith("0_") else spans
            for text, spans in zip(texts, read, strict=True)
        ]


def test_sentences_with_a_word_that_is_not_whole_are_left_out(tmp_path: Path) -> None:
    files = {"train": treebank(tmp_path / "train", 8, 1), "test": treebank(tmp_path / "test", 4, 2)}
    reader = WordReader(planted, (3,))
    reader.encoder = Forgetful()
    details = StructureProbe(**files, epochs=1).run(reader, context(split(["a row"]))).details  # type: ignore[arg-type]
    assert details["left_out"] == [1, 1]
    assert (details["n_train"], details["n_test"]) == (7, 3)
