"""What a running job shows: a bar with an estimate on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_EVERY_SECONDS = 15.0
TRUSTED_SECONDS = 60.0  # the weights count as much as so many seconds that went as they say


class Display:
    """Overall progress in `weights` (rough seconds of each piece of work, by name) and the piece at hand.

    The estimate of the time left scales the weights still open by how fast the finished ones went, the more so the more
    of them there are: a first piece of a second says little about the hour to come."""

    def __init__(self, weights: dict[str, float], console: Console | None = None) -> None:
        self.open, self.console = dict(weights), console or Console(stderr=True)
        self.spent = self.finished = 0.0

    def line(self, text: str) -> None:
        """One plain line above the bar."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def skip(self, name: str) -> None:
        """This piece is there already."""
        if self.open.pop(name, None) is not None:
            self.line(f"{name}: done before")

    def forget(self, names: Iterable[str]) -> None:
        """These pieces will not be worked on."""
        for name in names:
            self.open.pop(name, None)

    @contextmanager
    def task(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Show one piece of work; yields `progress(done, total)`. One that fails is gone, not finished."""
        started = time.monotonic()
        weight = self.open.get(name, 0.0)
        try:
            with self._shown(name, weight, started) as progress:
                yield progress
        finally:
            self.forget([name])
        seconds = time.monotonic() - started
        self.spent, self.finished = self.spent + seconds, self.finished + weight
        self.line(f"{name}: {seconds:.1f} s{self._left(0.0, 0.0)}")

    def seconds_left(self, done: float, weight: float) -> float | None:
        """Estimate with `done` of the current piece's `weight` behind us; None before anything is known."""
        if not self.finished:
            return None
        pace = (self.spent + TRUSTED_SECONDS) / (self.finished + TRUSTED_SECONDS)
        return max(0.0, sum(self.open.values()) - done * weight) * pace

    def _left(self, done: float, weight: float) -> str:
        seconds = self.seconds_left(done, weight)
        return "" if not seconds else f" (about {_clock(seconds)} left in all)"

    @contextmanager
    def _shown(self, name: str, weight: float, started: float) -> Iterator[Callable[[int, int], None]]:
        if not self.console.is_terminal:
            self.line(f"{name} ...{self._left(0.0, weight)}")
            yield self._plain(name, started)
            return
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[left]}"),
        )  # fmt: skip
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(name, total=None, left=self._left(0.0, weight))
            yield lambda done, total: bar.update(
                task, completed=done, total=total, left=self._left(done / max(1, total), weight)
            )

    def _plain(self, name: str, started: float) -> Callable[[int, int], None]:
        """Lines now and then. Speed counts from the first tick: loading and the teacher's answers came before it."""
        last, first = started, None

        def progress(done: int, total: int) -> None:
            nonlocal last, first
            now = time.monotonic()
            first = first or (now, done)
            since, begun = first
            if now - last >= PLAIN_EVERY_SECONDS and done > begun:
                left = (now - since) / (done - begun) * (total - done)
                self.line(f"  {name}: {done}/{total}, {_clock(left)} to go")
                last = now

        return progress


class LogLines(logging.Handler):
    """Shows what our own modules log as lines of the display, where it does not tear the bar."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self.display = display
        self.told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """One line a record, once: a model that is opened again and again says the same each time."""
        line = record.getMessage()
        if line not in self.told:
            self.told.add(line)
            self.display.line(line)


@contextmanager
def log_lines(display: Display) -> Iterator[None]:
    """Our modules' log goes to `display` for as long as the context lasts."""
    log, handler = logging.getLogger("assay"), LogLines(display)
    level = log.level
    log.setLevel(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"
