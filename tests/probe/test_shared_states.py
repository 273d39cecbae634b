"""Each text is read once, whatever probe asks for it."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from fake_models import Classifier, Reader, context, split

from assay.core.artifact import Artifact
from assay.core.errors import NotGiven
from assay.core.model.predict import StateBatch, open_predictor
from probe import shared_states
from probe.layer_vectors import layer_vectors
from probe.pooling import pooled_states
from probe.probes.erasure import ErasureProbe
from probe.probes.linear import LinearProbe
from probe.probes.mdl import MdlProbe
from probe.probes.similarity import SimilarityProbe
from probe.shared_states import StateCache

TEXTS = [f"{'word ' * (1 + at % 5)}number {at}" for at in range(40)]
LABELS = [at % 2 for at in range(40)]


def planted(text: str) -> list[list[float]]:
    noise = np.random.default_rng(crc32(text.encode())).normal(size=(2, 3))
    return noise.astype(np.float32).tolist()


class Counting(Reader):
    """Tells how often each text was read."""

    def __init__(self, **more: Any) -> None:
        super().__init__(planted, layers=(4,), heads=((0,),), **more)
        self.read: list[str] = []

    def states(self, texts: Sequence[str], batch_size: int = 32, attentions: bool = False) -> Iterator[StateBatch]:
        self.read += texts
        yield from super().states(texts, batch_size, attentions)


def test_probes_one_after_the_other_read_each_text_once_and_find_what_they_find_alone() -> None:
    probes = [
        LinearProbe(tasks=["label", "length", "bigram_shift"]),
        MdlProbe(tasks=["label"]),
        ErasureProbe(tasks=["label"], amnesic="none"),
        SimilarityProbe(samples=40),
    ]
    rows, teacher, model = split(TEXTS, LABELS), Counting(padding=2), Counting(padding=2)
    together = context(rows, teacher=teacher)
    found = [probe.run(model, together) for probe in probes]
    assert sorted(model.read) == sorted(set(model.read))
    assert sorted(teacher.read) == sorted(set(teacher.read))
    for one, probe in zip(found, probes, strict=True):
        alone = probe.run(model, context(rows, teacher=teacher))
        assert [metric.name for metric in one.metrics] == [metric.name for metric in alone.metrics]
        values = ([metric.value for metric in each.metrics] for each in (one, alone))
        np.testing.assert_allclose(*values, atol=1e-5)


@pytest.mark.parametrize("left", [False, True])
def test_what_is_replayed_is_what_was_read(left: bool) -> None:
    """Padding holds NaN in what is read, so that none of it may come through."""
    model = Counting(padding=3, left=left)
    shared = StateCache().of(model)
    texts = [TEXTS[7], "", TEXTS[3], TEXTS[7]]  # one twice, one blank
    list(shared.states(TEXTS[2:5]))
    for pooled in (pooled_states(shared, texts, ["mean", "first"]), pooled_states(shared, texts, ["mean", "first"])):
        for name, layers in pooled_states(model, texts, ["mean", "first"]).items():
            for one, other in zip(pooled[name], layers, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6)
    told, direct = (layer_vectors(each, TEXTS[:20], list(range(20)), 2, seed=4) for each in (shared, model))
    torch.testing.assert_close(told.tokens, direct.tokens)
    torch.testing.assert_close(told.texts, direct.texts)
    assert told.ids == direct.ids


def test_real_models_give_the_same_from_disk(tiny_artifact: Callable[..., Artifact]) -> None:
    model = open_predictor(tiny_artifact(layers=2), 32)
    shared, texts = StateCache().of(model), ["the film", "", "a great story with very dull music", "🎬"]
    read, replayed = (sorted(shared.states(texts), key=lambda batch: batch.rows) for _ in range(2))
    for one, other in zip(read, replayed, strict=True):
        assert one.rows == other.rows
        assert torch.equal(one.mask, other.mask)
        assert torch.equal(one.special, other.special)
        assert torch.equal(one.input_ids[one.mask], other.input_ids[other.mask])
        assert torch.equal(one.logits, other.logits)
        for mine, held in zip(one.hidden, other.hidden, strict=True):
            assert torch.equal(mine[one.mask], held[other.mask])


def test_models_are_told_apart_by_key_and_by_length(tiny_artifact: Callable[..., Artifact]) -> None:
    cache, artifact = StateCache(), tiny_artifact(layers=2)
    short, long = open_predictor(artifact, 8), open_predictor(artifact, 32)
    assert cache.of(short) is cache.of(open_predictor(artifact, 8))
    text = "the film was a great story with very dull music and slow acting"
    lengths = [next(iter(cache.of(model).states([text]))).mask.sum() for model in (short, long)]
    assert lengths == [8, 15]
    with pytest.raises(NotGiven, match="logits only"):
        cache.of(Classifier(lambda text: [1.0]))


def test_without_room_a_stream_is_read_anew_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_states, "MOST_BYTES", 400)
    said: list[str] = []
    model = Counting()
    shared = StateCache(tmp_path / "states", said.append).of(model)
    first, second = (pooled_states(shared, TEXTS[:30], ["mean"])["mean"][1] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, pooled_states(model, TEXTS[:30], ["mean"])["mean"][1])
    assert len(said) == 1
    assert f"no room for more in {tmp_path / 'states'}" in said[0]


def test_without_room_tokens_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Counting()
    shared = StateCache(tmp_path / "states").of(model)
    monkeypatch.setattr(shared_states, "MOST_BYTES", 1000)
    lengths = [len(text.split()) + 2 for text in TEXTS]
    with pytest.raises(NotGiven, match=r"states of 39 texts of .* GiB may be used in .*: lower the samples"):
        shared.tokens(TEXTS, lengths)
    assert len(model.read) == 1
    monkeypatch.setattr(shared_states, "MOST_BYTES", 2**20)
    roomy = StateCache(tmp_path / "states").of(model)
    files = roomy.tokens(TEXTS, lengths)
    assert files.tokens == sum(lengths)
    assert files.layer(1).shape == (sum(lengths), 3)
    np.testing.assert_allclose(files.layer(1)[files.held[TEXTS[9]].rows], [planted(TEXTS[9])[1]] * lengths[9])


def test_what_a_broken_write_left_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Counting()
    shared = StateCache().of(model)
    list(shared.states(TEXTS[:5]))
    write = type(shared.files)._write

    def breaks(self: Any, position: int, states: np.ndarray) -> None:
        if position == 1:
            raise OSError("disk is full")
        write(self, position, states)

    monkeypatch.setattr(type(shared.files), "_write", breaks)
    with pytest.raises(OSError, match="full"):
        list(shared.states(TEXTS[5:9]))
    monkeypatch.undo()
    list(shared.states(TEXTS[7:12]))
    held = pooled_states(shared, TEXTS[:12], ["mean"])["mean"]
    for one, other in zip(held, pooled_states(model, TEXTS[:12], ["mean"])["mean"], strict=True):
        np.testing.assert_array_equal(one, other)


def test_files_go_with_their_model_and_all_of_them_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "states"
    cache, teacher, variant = StateCache(folder), Counting(), Counting()
    for model in (teacher, variant):
        list(cache.of(model).states(TEXTS[:4]))
    assert len(list(folder.iterdir())) == 2
    cache.keep_only([teacher.artifact])
    assert [path.name for path in folder.iterdir()] == [f"{teacher.artifact.key[:12]}-128"]
    list(cache.of(teacher).states(TEXTS[:4]))
    assert len(teacher.read) == 4
    cache.close()
    assert not folder.exists()
    temporary = StateCache()
    list(temporary.of(teacher).states(TEXTS[:4]))
    where = temporary.folder
    assert where.is_dir()
    temporary.close()
    assert not where.exists()
    shutil.rmtree(where, ignore_errors=True)
