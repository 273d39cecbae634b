"""A real `assay run` process is killed; started again, it goes on where it was and ends with the same weights."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_jobs import figures, read, run, stamps, write_job
from tiny_models import write_tiny

from assay.core.manifest import hash_file

PATIENCE_S = 240
EPOCHS = 20  # 120 steps: a second or more, so that a kill falls into them
FEW = 5  # 30 steps, which take as long where each of them leaves a checkpoint


def write(home: Path, epochs: float) -> Path:
    """A job of two trainings, the second half as long."""
    write_tiny(home / "model")
    teacher = [{"finetune": {"epochs": epochs, "batch_size": 8, "learning_rate": 1e-3}}]
    variants = {"small": [{"prune_layers": {"keep": 2}}, {"distil": {"epochs": epochs / 2, "batch_size": 8}}]}
    return write_job(home / "job.yaml", home / "model", teacher=teacher, variants=variants)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("kill"), EPOCHS)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("short"), FEW)


def uninterrupted(config: Path) -> dict[str, str]:
    """Hashes of the weights that a run without interruption gives."""
    folder = config.parent / "uninterrupted"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.core.measure.side_by_side.measure", figures)
        run(config, folder)
    return weights(folder)


@pytest.fixture(scope="module")
def expected(config: Path) -> dict[str, str]:
    return uninterrupted(config)


def weights(folder: Path) -> dict[str, str]:
    return {path.parent.name: hash_file(path) for path in (folder / "store").glob("*/model.safetensors")}


def resumed(folder: Path) -> dict[str, int | None]:
    """The step from which each training went on."""
    steps = [step for item in read(folder / "run.json")["variants"] for step in item["steps"]]
    return {step["step"]: step["facts"]["resumed_from"] for step in steps if "resumed_from" in step["facts"]}


def kill_when(seen: Callable[[Path], bool], config: Path, folder: Path, checkpoint_seconds: float) -> None:
    """Start the job as a process and kill it, unannounced, as soon as `seen(folder)`."""
    command = [sys.executable, "-m", "assay.cli", "run", str(config), "--out", str(folder)]
    command += ["--checkpoint-seconds", str(checkpoint_seconds)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            given_up = time.monotonic() + PATIENCE_S
            while not seen(folder):
                assert process.poll() is None, "the job ended before it could be killed"
                assert time.monotonic() < given_up, "nothing to kill it at"
                time.sleep(0.005)
        finally:
            process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert read(folder / "run.json")["finished"] is None


def go_on(config: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.core.measure.side_by_side.measure", figures)
    assert run(config, folder).failures == []


def checkpoint_of(step: str) -> Callable[[Path], bool]:
    return lambda folder: any(folder.glob(f"scratch/{step}-*/checkpoint-*/sealed.json"))


def result_of(step: str) -> Callable[[Path], bool]:
    return lambda folder: any(folder.glob(f"store/{step}-*/manifest.json"))


def begun(step: str, after_s: float) -> Callable[[Path], bool]:
    """True from `after_s` seconds after the step has opened its scratch folder."""
    since: list[float] = []

    def seen(folder: Path) -> bool:
        if not since and any(folder.glob(f"scratch/{step}-*")):
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= after_s

    return seen


@pytest.mark.slow
@pytest.mark.job
def test_killed_in_training_it_goes_on_from_its_checkpoint_to_the_same_weights(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_when(checkpoint_of("finetune"), short, tmp_path / "run", checkpoint_seconds=0)
    assert not result_of("finetune")(tmp_path / "run")
    go_on(short, tmp_path / "run", monkeypatch)
    step = resumed(tmp_path / "run")["finetune"]
    assert step is not None
    assert 0 < step < FEW * 6
    assert resumed(tmp_path / "run")["distil"] is None
    assert weights(tmp_path / "run") == uninterrupted(short)
    assert list((tmp_path / "run" / "scratch").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 2.0, 4.0])
def test_killed_before_any_checkpoint_it_starts_the_step_anew(
    config: Path, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_s: float
) -> None:
    kill_when(begun("finetune", after_s), config, tmp_path / "run", checkpoint_seconds=600)
    go_on(config, tmp_path / "run", monkeypatch)
    assert resumed(tmp_path / "run") == {"finetune": None, "distil": None}
    assert weights(tmp_path / "run") == expected


@pytest.mark.slow
def test_killed_between_steps_it_redoes_none_of_the_finished(
    config: Path, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_when(result_of("finetune"), config, tmp_path / "run", checkpoint_seconds=600)
    before = stamps(tmp_path / "run" / "store")
    go_on(config, tmp_path / "run", monkeypatch)
    after = stamps(tmp_path / "run" / "store")
    assert {name: after[name] for name in before} == before
    assert weights(tmp_path / "run") == expected


@pytest.mark.slow
def test_killed_again_and_again_at_any_moment_it_still_ends_with_the_same_weights(
    config: Path, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    for moment in (
        begun("finetune", after_s=0.0),
        checkpoint_of("finetune"),
        begun("finetune", after_s=6.0),
        result_of("prune_layers"),
        checkpoint_of("distil"),
    ):
        kill_when(moment, config, folder, checkpoint_seconds=0.1)
    finished = stamps(next(folder.glob("store/finetune-*")))
    go_on(config, folder, monkeypatch)
    assert stamps(next(folder.glob("store/finetune-*"))) == finished
    assert resumed(folder)["distil"] is not None
    assert weights(folder) == expected


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["model.safetensors", "optimizer.pt", "sealed.json"])
def test_a_cut_checkpoint_is_not_resumed(
    config: Path, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    folder = tmp_path / "run"
    kill_when(checkpoint_of("finetune"), config, folder, checkpoint_seconds=0.2)
    for checkpoint in folder.glob("scratch/finetune-*/checkpoint-*"):
        for path in checkpoint.glob(damage):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    go_on(config, folder, monkeypatch)
    assert resumed(folder)["finetune"] is None
    assert weights(folder) == expected


def test_ctrl_c_ends_with_one_line_and_130(short: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "assay.cli", "run", str(short), "--out", str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_listen_to_ctrl_c
    ) as process:
        try:
            given_up = time.monotonic() + PATIENCE_S
            while not begun("finetune", after_s=0.0)(folder):
                assert process.poll() is None
                assert time.monotonic() < given_up
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=PATIENCE_S)[1].splitlines()
        finally:
            process.kill()
    assert process.returncode == 130
    assert said[-1] == "assay: stopped; the same command goes on from here"
    assert "Traceback" not in "\n".join(said)
    assert read(folder / "run.json")["finished"] is None
    assert not any((folder / "store").glob("*"))
    shutil.rmtree(folder)


def _listen_to_ctrl_c() -> None:
    """A shell starts what it runs in the background with the signal ignored, and the tests may be such."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
