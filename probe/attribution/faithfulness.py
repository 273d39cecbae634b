"""Whether the words at the top carry the answer: comprehensiveness and sufficiency (DeYoung et al. 2020, "ERASER").

Comprehensiveness is the fall of the target's probability when the top words are taken out, sufficiency the fall when
they alone are left: high and low are good. The words are removed, as in the paper; it takes several shares of the
words, here one. As a control the same number of words is drawn at random. For regression the value stands in the place
of the probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.stats import to_probabilities
from probe.attribution.agreement import mean_of, top_words

if TYPE_CHECKING:
    from assay.core.model.predict import TokenPredictor
    from probe.attribution.explained import Explained
    from probe.attribution.readings import Reading

TOP_SHARE = 0.2
DRAWS = 5  # random choices of words a text
FALLS = ("comprehensiveness", "sufficiency")


def faithfulness(
    model: TokenPredictor, found: Explained, rows: Sequence[int], task: str, seed: int
) -> list[dict[str, Any]]:
    """Means over the texts `rows`, each with its interval and the control's, one item a method."""
    choices = {name: [[_top(found.readings[row], words[row])] for row in rows] for name, words in found.words.items()}
    drawn = [_drawn(found.readings[row], (seed, row)) for row in rows]
    falls = _falls(model, found, rows, [*choices.values(), drawn], task)
    return [{"method": name, "n": len(rows)} | _told(own, falls[-1]) for name, own in zip(choices, falls, strict=False)]


def _count(reading: Reading) -> int:
    return max(1, round(TOP_SHARE * len(reading.read)))


def _top(reading: Reading, values: np.ndarray) -> list[int]:
    read = np.array(reading.read)
    return read[sorted(top_words(values[read], _count(reading)))].tolist()


def _drawn(reading: Reading, seed: tuple[int, int]) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.choice(reading.read, _count(reading), replace=False).tolist() for _ in range(DRAWS)]


def _falls(
    model: TokenPredictor, found: Explained, rows: Sequence[int], choices: Sequence[list[list[list[int]]]], task: str
) -> list[np.ndarray]:
    """Of each kind of choice float64 [texts, 2]: both falls, mean over the choices of a text. All are asked at once."""
    order = [(row, chosen) for kind in choices for row, several in zip(rows, kind, strict=True) for chosen in several]
    asked = [ids for row, chosen in order for ids in _both(found.readings[row], chosen)]
    after = to_probabilities(model.logits_of(asked), task)
    before = to_probabilities(found.logits, task)
    targets = [found.targets[row] for row, _ in order]
    left = after.reshape(len(order), 2, -1)[np.arange(len(order)), :, targets]
    whole = before[[row for row, _ in order], targets]
    return list(_by_text(whole[:, None] - left, choices))


def _both(reading: Reading, chosen: list[int]) -> tuple[list[int], list[int]]:
    return reading.without(chosen), reading.only(chosen)


def _by_text(falls: np.ndarray, choices: Sequence[list[list[list[int]]]]) -> Iterable[np.ndarray]:
    start = 0
    for kind in choices:
        each = len(kind[0]) if kind else 1
        end = start + each * len(kind)
        yield falls[start:end].reshape(len(kind), each, 2).mean(axis=1)
        start = end


def _told(own: np.ndarray, control: np.ndarray) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for at, name in enumerate(FALLS):
        told[name], told[f"{name}_low"], told[f"{name}_high"] = mean_of(own[:, at])
        told[f"{name}_random"] = mean_of(control[:, at])[0]
        gap, low, high = mean_of(own[:, at] - control[:, at])
        told |= {f"{name}_gain": gap, f"{name}_gain_low": low, f"{name}_gain_high": high}
    return told
