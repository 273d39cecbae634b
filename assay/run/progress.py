"""What a running job shows: a bar with an estimate on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_EVERY_SECONDS = 15.0


class Display:
    """Overall progress in `weights` (rough seconds of each piece of work, by name) and the piece at hand.

    The estimate of the time left scales the weights still open by how fast the finished ones went."""

    def __init__(self, weights: dict[str, float], console: Console | None = None) -> None:
        self.open, self.console = dict(weights), console or Console(stderr=True)
        self.spent = self.finished = 0.0

    def line(self, text: str) -> None:
        """One plain line above the bar."""
        self.console.print(text, highlight=False, markup=False)

    def skip(self, name: str) -> None:
        """This piece is there already."""
        if self.open.pop(name, None) is not None:
            self.line(f"{name}: done before")

    @contextmanager
    def task(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """Show one piece of work; yields `progress(done, total)`."""
        started = time.monotonic()
        if self.console.is_terminal:
            with self._bar(name) as progress:
                yield progress
        else:
            self.line(f"{name} ...{self._left(0.0, self.open.get(name, 0.0))}")
            yield self._plain(name, started)
        seconds = time.monotonic() - started
        weight = self.open.pop(name, 0.0)
        self.spent, self.finished = self.spent + seconds, self.finished + weight
        self.line(f"{name}: {seconds:.1f} s{self._left(0.0, 0.0)}")

    def seconds_left(self, done: float, weight: float) -> float | None:
        """Estimate with `done` of the current piece's `weight` behind us; None before anything is known."""
        if not self.finished:
            return None
        return max(0.0, sum(self.open.values()) - done * weight) * self.spent / self.finished

    def _left(self, done: float, weight: float) -> str:
        seconds = self.seconds_left(done, weight)
        return "" if not seconds else f" (about {_clock(seconds)} left in all)"

    @contextmanager
    def _bar(self, name: str) -> Iterator[Callable[[int, int], None]]:
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[left]}"),
        )  # fmt: skip
        weight = self.open.get(name, 0.0)
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(name, total=None, left=self._left(0.0, weight))
            yield lambda done, total: bar.update(
                task, completed=done, total=total, left=self._left(done / max(1, total), weight)
            )

    def _plain(self, name: str, started: float) -> Callable[[int, int], None]:
        last = started

        def progress(done: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= PLAIN_EVERY_SECONDS and done:
                left = (now - started) / done * (total - done)
                self.line(f"  {name}: {done}/{total}, {_clock(left)} to go")
                last = now

        return progress


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"
