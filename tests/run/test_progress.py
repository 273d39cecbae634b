from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console

from assay.run import progress
from assay.run.progress import Display, log_lines


class Clock:
    """A clock that only moves when told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def plain(weights: dict[str, float]) -> tuple[Display, io.StringIO]:
    said = io.StringIO()
    return Display(weights, Console(file=said, width=60)), said


def test_the_estimate_starts_with_the_first_finished_piece_and_follows_its_speed(clock: Clock) -> None:
    display, said = plain({"one": 10.0, "two": 30.0})
    with display.task("one"):
        assert display.seconds_left(0.5, 10.0) is None
        clock.now += 20
    assert display.seconds_left(0.0, 0.0) == pytest.approx(30 * 80 / 70), "a little slower than the weights say"
    assert display.seconds_left(0.5, 30.0) == pytest.approx(15 * 80 / 70)
    assert said.getvalue() == "one ...\none: 20.0 s (about 0:34 left in all)\n"


def test_much_finished_work_outweighs_the_weights_and_a_little_does_not(clock: Clock) -> None:
    for seconds, low, high in ((1.0, 1.0, 1.2), (6000.0, 9.0, 10.0)):
        display, _ = plain({"one": seconds / 10, "two": 100.0})
        with display.task("one"):
            clock.now += seconds
        left = display.seconds_left(0.0, 0.0)
        assert left is not None
        assert low < left / 100 < high, "ten times as slow as its weight says"


def test_work_done_before_is_one_line_and_no_measure_of_speed() -> None:
    display, said = plain({"one": 10.0, "two": 30.0})
    display.skip("one")
    display.skip("one")
    assert said.getvalue() == "one: done before\n"
    assert display.seconds_left(0.0, 0.0) is None
    assert display.open == {"two": 30.0}


def test_a_piece_that_fails_says_no_time_and_is_no_measure_of_speed(clock: Clock) -> None:
    display, said = plain({"one": 10.0, "two": 30.0, "three": 1.0})
    with pytest.raises(ZeroDivisionError), display.task("one"):
        clock.now += 20 / 0
    display.forget(["two", "not there"])
    assert said.getvalue() == "one ...\n"
    assert display.seconds_left(0.0, 0.0) is None
    assert display.open == {"three": 1.0}


def test_without_a_terminal_progress_is_a_plain_line_now_and_then(clock: Clock) -> None:
    display, said = plain({"train": 10.0})
    with display.task("train") as tick:
        for step in range(1, 11):
            clock.now += 6
            tick(step, 40)
    lines = said.getvalue().splitlines()
    assert lines[1:-1] == [
        "  train: 3/40, 3:42 to go",
        "  train: 6/40, 3:24 to go",
        "  train: 9/40, 3:06 to go",
    ]
    assert "\x1b" not in said.getvalue()


def test_what_comes_before_the_first_step_does_not_count_as_its_time(clock: Clock) -> None:
    display, said = plain({"distil": 10.0})
    with display.task("distil") as tick:
        clock.now += 600  # the teacher answers the training rows
        for step in range(1, 5):
            clock.now += 6
            tick(step, 44)
    assert said.getvalue().splitlines()[1:-1] == ["  distil: 2/44, 4:12 to go"]


def test_a_resumed_training_is_judged_by_its_own_steps(clock: Clock) -> None:
    display, said = plain({"train": 10.0})
    with display.task("train") as tick:
        for step in range(101, 105):
            clock.now += 6
            tick(step, 110)
    assert said.getvalue().splitlines()[1:-1] == ["  train: 103/110, 0:42 to go"]


def test_long_lines_are_not_broken_and_brackets_are_text() -> None:
    display, said = plain({})
    line = "store/[bold]x: " + "a long reason " * 20
    display.line(line)
    assert said.getvalue() == line + "\n"


def test_on_a_terminal_the_bar_goes_and_the_line_stays() -> None:
    said = io.StringIO()
    display = Display({"train": 1.0}, Console(file=said, force_terminal=True, width=100))
    with display.task("train") as tick:
        tick(3, 7)
    assert "3/7" in said.getvalue()
    assert said.getvalue().rstrip().endswith("train: 0.0 s")


def test_warnings_of_our_modules_are_lines_of_the_display() -> None:
    display, said = plain({})
    log = logging.getLogger("assay.core.model.load")
    with log_lines(display):
        log.warning("%s: no pad token", "model")
        log.info("not worth a line")
    log.warning("after the run")
    assert said.getvalue() == "model: no pad token\n"
