"""How the share of zeros grows while a model trains (Zhu & Gupta 2017, "To Prune, or Not to Prune", eq. 1).

s_t = s_f + (s_i - s_f) (1 - p)^3, p being how far step t is between the first and the last step of the schedule: many
weights go early, while most can be spared, and few at the end.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cubic:
    """`first` and `last` are steps, counted from 0; what is scheduled is complete at `last` and after it. Between them
    masks are renewed each `every` steps."""

    first: int
    last: int
    every: int = 1

    def value(self, step: int, initial: float, final: float) -> float:
        """From `initial` at `first`, and before it, to `final` at `last`."""
        return final + (initial - final) * (1 - self._progress(step)) ** 3

    def due(self, step: int, after_last: bool) -> bool:
        """Whether masks are renewed at this step; past the last one only where `after_last` says so."""
        if step < self.first or (step > self.last and not after_last):
            return False
        return (step - self.first) % self.every == 0 or step == self.last

    def _progress(self, step: int) -> float:
        if step >= self.last:
            return 1.0
        return max(0, step - self.first) / (self.last - self.first)


def over(steps: int, begin: float, end: float, every: int) -> Cubic:
    """The schedule from `begin` to `end`, shares of a training of `steps` steps; never beyond the last of them."""
    last = min(round(end * steps), steps - 1)
    return Cubic(min(round(begin * steps), last), last, every)
