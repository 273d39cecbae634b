"""Steps that only write text, so that what is tested is how work is kept, not the work."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from rich.console import Console

from assay.core.artifact import Artifact
from assay.core.data.prepare import JobData, Split
from assay.core.errors import InputError
from assay.core.manifest import key_of
from assay.run.execute import Workshop
from assay.run.failure import DiskError, StepFailed
from assay.run.plan import Node
from assay.run.progress import Display
from compress.step import Context, Step

ROWS = Split(["a", "b"], np.array([0, 1]), [1, 2])
DATA = JobData(ROWS, ROWS, ROWS, ("neg", "pos"), "text-classification", "fingerprint")
SOURCE = Artifact(Path("model"), "source-key", "torch", "text-classification", "bert")


@dataclass
class Log:
    """What the steps were asked to do, and how they are to fail."""

    applied: list[str] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    error: BaseException | None = None
    facts: dict[str, Any] = field(default_factory=dict)


LOG = Log()


class Write(Step):
    """Writes `text`, half of it before and half after the moment it may fail."""

    failing: ClassVar[bool] = False
    text: str

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        LOG.applied.append(self.text)
        LOG.contexts.append(ctx)
        (out / "model.safetensors").write_text(self.text)
        (ctx.scratch / "checkpoint").write_text("half of the work")
        if self.failing and LOG.error:
            raise LOG.error
        (out / "config.json").write_text(source.key)
        return dict(LOG.facts)


class Fail(Write):
    failing: ClassVar[bool] = True


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    fresh = Log()
    monkeypatch.setattr(sys.modules[__name__], "LOG", fresh)
    return fresh


def chain(folder: Path, *steps: Write) -> tuple[Node, ...]:
    nodes, key = [], "source-key"
    for step in steps:
        name = type(step).__name__.lower()
        key = key_of(key, name, step.text)
        nodes.append(Node(name, step, key, folder / "store" / f"{name}-{step.text}-{key[:6]}"))
    return tuple(nodes)


def workshop(folder: Path, said: io.StringIO | None = None, **more: Any) -> Workshop:
    return Workshop(folder, DATA, 13, Display({}, Console(file=said or io.StringIO())), **more)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_chain_is_worked_through_and_each_step_sees_what_came_before(tmp_path: Path, log: Log) -> None:
    nodes = chain(tmp_path, Write(text="a"), Write(text="b"))
    artifact = workshop(tmp_path, checkpoint_seconds=7.0).carry_out(nodes, SOURCE, None)
    assert artifact.path == nodes[-1].folder
    assert (artifact.path / "config.json").read_text() == nodes[0].key, "the source of the second step is the first"
    assert [[item.key for item in context.lineage] for context in log.contexts] == [
        ["source-key"],
        ["source-key", nodes[0].key],
    ]
    assert {context.checkpoint_seconds for context in log.contexts} == {7.0}


def test_what_is_done_is_not_touched_again(tmp_path: Path, log: Log) -> None:
    nodes = chain(tmp_path, Write(text="a"), Write(text="b"))
    workshop(tmp_path).carry_out(nodes, SOURCE, None)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
    said = io.StringIO()
    again = Workshop(tmp_path, DATA, 13, Display({nodes[0].folder.name: 1.0}, Console(file=said)))
    again.carry_out(nodes, SOURCE, None)
    assert log.applied == ["a", "b"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")} == before
    assert said.getvalue() == f"{nodes[0].folder.name}: done before\n"


def test_a_shared_step_is_carried_out_once(tmp_path: Path, log: Log) -> None:
    one, two = chain(tmp_path, Write(text="a"), Write(text="b")), chain(tmp_path, Write(text="a"), Write(text="c"))
    shop = workshop(tmp_path)
    shop.carry_out(one, SOURCE, None)
    shop.carry_out(two, SOURCE, None)
    assert log.applied == ["a", "b", "c"]


def flip_a_byte(folder: Path) -> None:
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[0] ^= 1
    (folder / "model.safetensors").write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_byte,
        lambda folder: (folder / "model.safetensors").write_bytes(b""),
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / "stray.bin").write_bytes(b"x"),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text('{"key": '),
    ],
    ids=["one byte changed", "emptied", "file missing", "file too many", "no manifest", "cut manifest"],
)
def test_a_damaged_result_is_made_again(tmp_path: Path, log: Log, damage: Any) -> None:
    nodes = chain(tmp_path, Write(text="long text"), Write(text="b"))
    workshop(tmp_path).carry_out(nodes, SOURCE, None)
    damage(nodes[0].folder)
    workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert log.applied == ["long text", "b", "long text"], "the step after it is still whole"
    assert (nodes[0].folder / "model.safetensors").read_text() == "long text"
    assert names(nodes[0].folder) == ["config.json", "manifest.json", "model.safetensors"]
    assert nodes[0].done


def test_a_failed_step_leaves_its_error_and_nothing_else(tmp_path: Path, log: Log) -> None:
    log.error = ValueError("two\n  lines")
    nodes = chain(tmp_path, Write(text="a"), Fail(text="f"), Write(text="never"))
    with pytest.raises(StepFailed, match=r"^ValueError: two lines$") as failed:
        workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert names(nodes[1].folder) == ["error.json"]
    assert failed.value.told_in == nodes[1].folder / "error.json"
    told = json.loads(failed.value.told_in.read_text())
    assert told["error"] == "ValueError: two lines"
    assert any("in apply" in line for line in told["traceback"])
    assert log.applied == ["a", "f"]
    assert not nodes[1].done
    assert nodes[0].done


def test_the_next_run_tries_a_failed_step_again(tmp_path: Path, log: Log) -> None:
    nodes = chain(tmp_path, Fail(text="f"))
    log.error = InputError("no such layer")
    with pytest.raises(StepFailed, match=r"^no such layer$"):
        workshop(tmp_path).carry_out(nodes, SOURCE, None)
    log.error = None
    workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert nodes[0].done
    assert names(nodes[0].folder) == ["config.json", "manifest.json", "model.safetensors"]


def test_a_step_that_failed_is_not_tried_twice_in_one_run(tmp_path: Path, log: Log) -> None:
    log.error = ValueError("no")
    shop = workshop(tmp_path)
    for last in ("b", "c"):
        with pytest.raises(StepFailed, match="ValueError: no"):
            shop.carry_out(chain(tmp_path, Fail(text="f"), Write(text=last)), SOURCE, None)
    assert log.applied == ["f"]


def test_ctrl_c_leaves_nothing_half_written_and_keeps_the_checkpoints(tmp_path: Path, log: Log) -> None:
    log.error = KeyboardInterrupt()
    nodes = chain(tmp_path, Fail(text="f"))
    with pytest.raises(KeyboardInterrupt):
        workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert names(tmp_path) == [f"scratch/{nodes[0].folder.name}/checkpoint"]


def test_what_a_killed_process_left_is_not_mixed_in(tmp_path: Path) -> None:
    nodes = chain(tmp_path, Write(text="a"))
    left = tmp_path / "scratch" / f"{nodes[0].folder.name}.unfinished"
    left.mkdir(parents=True)
    (left / "half.bin").write_text("half")
    workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert names(nodes[0].folder) == ["config.json", "manifest.json", "model.safetensors"]
    assert not left.exists()


def test_scratch_goes_when_the_step_is_done_and_stays_when_it_fails(tmp_path: Path, log: Log) -> None:
    log.error = ValueError("no")
    nodes = chain(tmp_path, Fail(text="f"))
    with pytest.raises(StepFailed):
        workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert names(tmp_path / "scratch") == [f"{nodes[0].folder.name}/checkpoint"]
    log.error = None
    workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_checkpoints_left_by_a_kill_right_after_the_step_go_with_the_next_run(tmp_path: Path) -> None:
    nodes = chain(tmp_path, Write(text="a"))
    workshop(tmp_path).carry_out(nodes, SOURCE, None)
    scratch = tmp_path / "scratch" / nodes[0].folder.name
    scratch.mkdir()
    (scratch / "checkpoint").write_text("of no use any more")
    workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert not scratch.exists()


def test_numbers_that_json_cannot_hold_fail_the_step_by_name(tmp_path: Path, log: Log) -> None:
    log.facts = {"train_loss": 1.0, "curve": [{"step": 1, "loss": float("nan")}]}
    nodes = chain(tmp_path, Write(text="a"))
    with pytest.raises(StepFailed, match=r"curve\.0\.loss is nan.*learning_rate"):
        workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert names(nodes[0].folder) == ["error.json"]


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_or_locked_disk_ends_the_job_with_the_path(tmp_path: Path, log: Log, reason: int) -> None:
    log.error = OSError(reason, os.strerror(reason), "store/model.safetensors")
    nodes = chain(tmp_path, Fail(text="f"))
    with pytest.raises(DiskError, match=rf"^store/model.safetensors: {os.strerror(reason)}; .*start the same command"):
        workshop(tmp_path).carry_out(nodes, SOURCE, None)
    assert not nodes[0].folder.exists(), "the step is not to blame"


def test_each_step_is_told_to_the_record(tmp_path: Path, log: Log) -> None:
    log.error = ValueError("no")
    seen: list[list[str]] = []
    nodes = chain(tmp_path, Write(text="a"), Fail(text="f"))
    shop = workshop(tmp_path, changed=lambda: seen.append(names(tmp_path / "store")))
    with pytest.raises(StepFailed):
        shop.carry_out(nodes, SOURCE, None)
    assert len(seen) == 2
    assert f"{nodes[0].folder.name}/manifest.json" in seen[0]
    assert f"{nodes[1].folder.name}/error.json" in seen[1]


def test_the_teacher_answers_the_training_rows_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    asked: list[list[str]] = []

    class Teacher:
        def logits(self, texts: list[str]) -> np.ndarray:
            asked.append(texts)
            return np.array([[0.0, 1.0], [2.0, 3.0]], np.float32)

    monkeypatch.setattr("assay.core.model.predict.open_predictor", lambda artifact, max_length: Teacher())
    workshop(tmp_path).carry_out(chain(tmp_path, Write(text="a"), Write(text="b")), SOURCE, SOURCE)
    answers = [context.teacher_logits() for context in log.contexts]
    assert asked == [["a", "b"]]
    for answer in answers:
        np.testing.assert_array_equal(answer, [[0.0, 1.0], [2.0, 3.0]])
