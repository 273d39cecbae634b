"""Vectors that do not fit into memory are refused before texts are read."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from fake_models import Reader, WordReader, context, split

from assay.core.errors import NoRoom
from probe.fit_memory import COPIES, GIB, check_fit_memory
from probe.probes.erasure import ErasureProbe
from probe.probes.linear import LinearProbe
from probe.probes.mdl import MdlProbe
from probe.probes.similarity import SimilarityProbe
from probe.probes.tokens import TokensProbe
from probe.shared_states import StateCache

TEXTS = [f"{'word ' * (1 + at % 5)}number {at}" for at in range(40)]
WIDTH = 3
SENTENCES = "\n\n".join(f"a\tDET\nword{at}\tNOUN" for at in range(20))


def reader() -> Reader:
    return Reader(lambda text: [[float(len(text)), 1.0, 2.0]] * 2, layers=(4,), heads=((0,),))


def free(monkeypatch: pytest.MonkeyPatch, size_bytes: float) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=size_bytes))


@pytest.mark.parametrize(("held", "number_bytes"), [(0, 4), (2, 4), (1, 8)])
def test_the_need_is_counted_by_hand(monkeypatch: pytest.MonkeyPatch, held: int, number_bytes: int) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model, vectors = StateCache().of(reader()), 10_000_000
    need = vectors * WIDTH * (held * 2 * 4 + 2 * COPIES * number_bytes)
    free(monkeypatch, need)
    check_fit_memory(model, TEXTS, vectors, held, number_bytes)
    free(monkeypatch, need - 1)
    with pytest.raises(NoRoom, match=f"10,000,000 vectors each take about {need / GIB:.1f} GiB .* lower the samples"):
        check_fit_memory(model, TEXTS, vectors, held, number_bytes)


@pytest.mark.parametrize(
    "probe",
    [
        LinearProbe(tasks=["label"]),
        MdlProbe(tasks=["label"]),
        ErasureProbe(tasks=["label"], amnesic="none"),
        SimilarityProbe(),
    ],
)
def test_a_probe_that_finds_no_memory_reads_a_text_at_most(
    probe: LinearProbe | MdlProbe | ErasureProbe | SimilarityProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = reader()
    read: list[str] = []
    states = model.states
    monkeypatch.setattr(model, "states", lambda texts, *more: [read.extend(texts), states(texts, *more)][1])
    given = context(split(TEXTS, [at % 2 for at in range(40)]), teacher=model)
    free(monkeypatch, 100)
    with pytest.raises(NoRoom, match=r"GiB of memory, 0\.0 GiB are free: lower"):
        probe.run(model, given)
    assert len(read) <= 1
    free(monkeypatch, 2**40)
    assert probe.run(model, given).metrics
    assert len(read) > 1


def test_words_are_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "words").write_text(SENTENCES)
    model = WordReader(lambda words: [np.array([[len(word), word < "b"] for word in words])] * 2, layers=(0,))
    probe = TokensProbe(train=str(tmp_path / "words"), test=str(tmp_path / "words"), tags="last_column")
    free(monkeypatch, 100)
    with pytest.raises(NoRoom, match=r"2 layers of .* on 80 vectors each"):
        probe.run(model, context(split(TEXTS)))
    free(monkeypatch, 2**40)
    assert probe.run(model, context(split(TEXTS), teacher=model)).details["tasks"][0]["layers"]
