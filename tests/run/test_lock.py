from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.run.lock import locked, process_at_work

HOLD = """
import sys, time
from pathlib import Path
from assay.run.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_refused_with_the_process_until_the_first_is_gone_even_by_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        assert process_at_work(folder) == str(first.pid)
        with pytest.raises(InputError, match=rf"another run is at work here \(process {first.pid}\)"), locked(folder):
            pass
        first.send_signal(signal.SIGKILL)
    assert process_at_work(folder) is None
    with locked(folder):
        assert process_at_work(folder) == str(os.getpid())


def test_a_folder_without_a_run_has_no_process(tmp_path: Path) -> None:
    assert process_at_work(tmp_path) is None


def test_a_folder_with_other_things_in_it_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"not a run folder, and not empty \(it holds thesis\.tex\).*--out"):
        locked(tmp_path).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_and_one_with_hidden_files_are_taken(tmp_path: Path) -> None:
    (tmp_path / ".gitkeep").touch()
    with locked(tmp_path):
        assert (tmp_path / "run.lock").is_file()


def test_a_file_in_the_place_of_the_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    for folder in (tmp_path / "run", tmp_path / "run" / "inside"):
        with pytest.raises(InputError, match=r"run.*: cannot be a run folder \(.+\); name another with --out"):
            locked(folder).__enter__()
