"""The training loop: seeded batches, and a resume that is the run that was never interrupted."""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_jobs import planted_rows
from tiny_models import write_tiny
from torch import Tensor, nn

from assay.core.artifact import WEIGHTS, Artifact, open_source
from assay.core.errors import AssayError
from assay.core.manifest import hash_folder, write_json
from assay.core.model.encoder import Encoder
from assay.core.model.load import load_module, load_tokenizer
from assay.core.train import SEAL, History, LengthGrouped, Schedule, newest_checkpoint, train

ROWS = planted_rows(24)
SCHEDULE = Schedule(epochs=4, learning_rate=1e-3, batch_size=8)  # 3 steps an epoch, 12 in all
State = dict[str, Tensor]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A tiny BERT with its usual dropout of 0.1."""
    folder = tmp_path_factory.mktemp("source") / "bert"
    write_tiny(folder, layers=1)
    return open_source(folder, "text-classification")


class LabelLoss(nn.Module):
    """Cross-entropy with a learned temperature, so that the loss has something to train and to resume."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return nn.functional.cross_entropy(logits * self.scale, batch["labels"])


def run(
    source: Artifact,
    scratch: Path,
    seed: int = 3,
    progress: Callable[[int, int], None] = lambda done, total: None,
    log: Callable[[str], None] = lambda line: None,
    schedule: Schedule = SCHEDULE,
    dropout: bool = True,
    checkpoint_seconds: float = 60,
) -> tuple[State, History]:
    """Weights of model and loss after training from the same start."""
    module, loss = load_module(source), LabelLoss()
    if not dropout:
        for part in module.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
    encoder = Encoder(load_tokenizer(source), 32)
    history = train(
        module, loss, encoder, ROWS.texts, ROWS.labels, schedule, seed, scratch, progress, log, checkpoint_seconds
    )
    return module.state_dict() | {f"loss.{name}": value for name, value in loss.state_dict().items()}, history


def interrupt(source: Artifact, scratch: Path, step: int, before: Callable[[int], None] = lambda done: None) -> None:
    """A run that saves after each step, and a Ctrl-C in `step`: the newest checkpoint is that of the step before."""

    def progress(done: int, total: int) -> None:
        before(done)
        if done == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(source, scratch, progress=progress, checkpoint_seconds=0)


def same(one: State, other: State) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one.keys() | other.keys())


@pytest.fixture(scope="module")
def straight(source: Artifact, tmp_path_factory: pytest.TempPathFactory) -> State:
    """Weights after four epochs without a stop."""
    return run(source, tmp_path_factory.mktemp("straight"))[0]


@pytest.mark.parametrize("stop", [3, 4, 6], ids=["first epoch", "end of an epoch", "middle of an epoch"])
def test_a_resumed_run_is_the_same_run(stop: int, source: Artifact, straight: State, tmp_path: Path) -> None:
    interrupt(source, tmp_path, stop)
    for draw_from in (random.seed, np.random.seed, torch.manual_seed):
        draw_from(99)  # a fresh process has another state
    resumed, history = run(source, tmp_path)
    assert history.resumed_from == stop - 1
    assert history.steps == 12
    assert same(resumed, straight)


def test_dropout_and_seed_matter(source: Artifact, straight: State, tmp_path: Path) -> None:
    """Otherwise equal weights after a resume would show nothing."""
    assert same(run(source, tmp_path / "a")[0], straight)
    assert not same(run(source, tmp_path / "b", dropout=False)[0], straight)
    assert not same(run(source, tmp_path / "c", seed=4)[0], straight)
    assert straight["loss.scale"] != 1


def test_stopping_twice_is_still_the_same_run(source: Artifact, straight: State, tmp_path: Path) -> None:
    for stop in (5, 9):
        interrupt(source, tmp_path, stop)
    resumed, history = run(source, tmp_path)
    assert history.resumed_from == 8
    assert same(resumed, straight)
    assert [point["step"] for point in history.curve] == list(range(1, 13))


@pytest.fixture(scope="module")
def stopped(source: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run left that was stopped after step 7, with the checkpoint of step 4 still there."""
    scratch, aside = tmp_path_factory.mktemp("stopped"), tmp_path_factory.mktemp("aside")

    def keep(done: int) -> None:
        if done == 5:
            shutil.copytree(scratch / "checkpoint-4", aside / "checkpoint-4")

    interrupt(source, scratch, 8, before=keep)
    shutil.move(aside / "checkpoint-4", scratch)
    return scratch


def remove_state(checkpoint: Path) -> None:
    (checkpoint / "trainer_state.json").unlink()


def empty_weights(checkpoint: Path) -> None:
    (checkpoint / WEIGHTS).write_bytes(b"")


def cut_weights(checkpoint: Path) -> None:
    content = (checkpoint / WEIGHTS).read_bytes()
    (checkpoint / WEIGHTS).write_bytes(content[: len(content) // 2])


def remove_seal(checkpoint: Path) -> None:
    (checkpoint / SEAL).unlink()


def cut_seal(checkpoint: Path) -> None:
    (checkpoint / SEAL).write_text((checkpoint / SEAL).read_text()[:40])


def add_file(checkpoint: Path) -> None:
    (checkpoint / "stray").touch()


@pytest.mark.parametrize("damage", [remove_state, empty_weights, cut_weights])
def test_a_broken_checkpoint_is_passed_over(
    damage: Callable[[Path], None], source: Artifact, straight: State, stopped: Path, tmp_path: Path
) -> None:
    scratch, lines = tmp_path / "scratch", []
    shutil.copytree(stopped, scratch)
    damage(scratch / "checkpoint-7")
    resumed, history = run(source, scratch, log=lines.append)
    assert history.resumed_from == 4
    assert [line for line in lines if "checkpoint-7: this checkpoint is incomplete" in line] == lines
    assert len(lines) == 1
    assert same(resumed, straight)


@pytest.mark.parametrize("damage", [remove_state, empty_weights, cut_weights, remove_seal, cut_seal, add_file])
def test_only_whole_checkpoints_count(damage: Callable[[Path], None], stopped: Path, tmp_path: Path) -> None:
    scratch, lines = tmp_path / "scratch", []
    shutil.copytree(stopped, scratch)
    assert newest_checkpoint(scratch, lines.append) == scratch / "checkpoint-7"
    assert lines == []
    damage(scratch / "checkpoint-7")
    assert newest_checkpoint(scratch, lines.append) == scratch / "checkpoint-4"
    damage(scratch / "checkpoint-4")
    assert newest_checkpoint(scratch, lines.append) is None
    assert len(lines) == 2
    assert list(scratch.glob("checkpoint-*")) == []


def test_a_new_checkpoint_replaces_the_older_ones(source: Artifact, tmp_path: Path) -> None:
    interrupt(source, tmp_path, 6)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-5"]


def test_checkpoints_are_made_by_the_clock(source: Artifact, tmp_path: Path) -> None:
    run(source, tmp_path, schedule=Schedule(1, 1e-3, 8), checkpoint_seconds=3600)
    assert list(tmp_path.glob("checkpoint-*")) == []


class Payload:
    """Unpickling it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.folder,)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_checkpoint_cannot_run_code(name: str, source: Artifact, stopped: Path, tmp_path: Path) -> None:
    """The trainer reads these files with torch.load(weights_only=True), which builds tensors and plain data only."""
    scratch = tmp_path / "scratch"
    shutil.copytree(stopped, scratch)
    checkpoint = scratch / "checkpoint-7"
    torch.save(Payload(tmp_path / "ran"), checkpoint / name)
    (checkpoint / SEAL).unlink()
    write_json(checkpoint / SEAL, hash_folder(checkpoint))
    with pytest.raises(pickle.UnpicklingError):
        run(source, scratch)
    assert not (tmp_path / "ran").exists()
    torch.load(checkpoint / name, weights_only=False)
    assert (tmp_path / "ran").exists()


def test_training_that_diverges_ends_with_one_line(source: Artifact, tmp_path: Path) -> None:
    schedule = Schedule(epochs=2, learning_rate=1e30, batch_size=8, warmup=0.0)
    with pytest.raises(AssayError, match=r"training diverged, the loss is (nan|inf); a lower learning_rate may help"):
        run(source, tmp_path, schedule=schedule)


def test_progress_counts_to_the_end(source: Artifact, tmp_path: Path) -> None:
    seen = []
    run(source, tmp_path, progress=lambda done, total: seen.append((done, total)), schedule=Schedule(0.67, 1e-3, 8))
    assert seen == [(1, 2), (2, 2)]


LENGTHS = np.random.default_rng(0).integers(3, 60, 1000)


def batches(seed: int = 1, epoch: int = 0, lengths: np.ndarray = LENGTHS) -> list[list[int]]:
    sampler = LengthGrouped(lengths.tolist(), 8, seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def test_batches_depend_on_seed_and_epoch_only() -> None:
    first = batches()
    np.random.seed(5)
    torch.manual_seed(5)
    assert batches() == first
    assert batches(seed=2) != first
    assert batches(epoch=1) != first


@pytest.mark.parametrize("rows", [1000, 1001, 7, 1])
def test_every_row_comes_once_an_epoch(rows: int) -> None:
    lengths = np.resize(LENGTHS, rows)
    found = batches(lengths=lengths)
    assert sorted(row for batch in found for row in batch) == list(range(rows))
    assert len(found) == len(LengthGrouped(lengths.tolist(), 8, 1)) == -(-rows // 8)
    assert max(map(len, found)) <= 8


def padding_share(parts: list[list[int]]) -> float:
    """Share of all positions of the padded batches that hold no token."""
    padded = sum(len(part) * LENGTHS[part].max() for part in parts)
    return 1 - LENGTHS.sum() / padded


def test_little_is_padding() -> None:
    plain = np.random.default_rng(1).permutation(1000).reshape(-1, 8).tolist()
    assert padding_share(batches()) < 0.05
    assert padding_share(plain) > 0.3


def batches_seen(
    module: nn.Module, encoder: Encoder, labels: np.ndarray, epochs: float, scratch: Path
) -> list[dict[str, Tensor]]:
    """What the loss is handed in the course of a training."""
    seen: list[dict[str, Tensor]] = []

    def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        seen.append(batch)
        return next(model.parameters()).sum()

    train(module, loss, encoder, ROWS.texts, labels, Schedule(epochs, 1e-4, 8), 0, scratch, lambda *_: None, print, 60)
    return seen


def test_every_epoch_has_all_rows_in_an_order_of_its_own(source: Artifact, tmp_path: Path) -> None:
    encoder = Encoder(load_tokenizer(source), 32)
    seen = batches_seen(load_module(source), encoder, ROWS.labels, 2, tmp_path)
    rows = [row for batch in seen for row in batch["row"].tolist()]
    assert sorted(rows[:24]) == sorted(rows[24:]) == list(range(24))
    assert rows[:24] != rows[24:]


@pytest.mark.parametrize(
    ("labels", "dtype", "shape"),
    [
        (np.arange(24) % 2, torch.int64, (8,)),
        (np.linspace(0, 1, 24), torch.float64, (8,)),
        (np.eye(4, dtype=np.int64)[np.arange(24) % 4], torch.int64, (8, 4)),
    ],
    ids=["classes", "regression", "multi-label"],
)
def test_each_row_comes_with_its_own_label(
    labels: np.ndarray, dtype: torch.dtype, shape: tuple[int, ...], source: Artifact, tmp_path: Path
) -> None:
    module, encoder = load_module(source), Encoder(load_tokenizer(source), 32)
    seen = batches_seen(module, encoder, labels, 1, tmp_path)
    assert {(batch["labels"].dtype, tuple(batch["labels"].shape)) for batch in seen} == {(dtype, shape)}
    ids = encoder.ids(ROWS.texts)
    for batch in seen:
        assert (batch["labels"].numpy() == labels[batch["row"]]).all()
        assert [
            row[mask.bool()].tolist() for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
        ] == [ids[row] for row in batch["row"]]
    assert not module.training
