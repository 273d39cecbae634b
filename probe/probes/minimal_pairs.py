"""Whether a language model finds the grammatical one of two sentences more probable (Warstadt et al. 2020, "BLiMP: The
Benchmark of Linguistic Minimal Pairs", https://aclanthology.org/2020.tacl-1.25).

A sentence's score is its log-probability, or its pseudo-log-likelihood (`probe/language/sentence_scores.py`), not
divided by its length. The pairs are those of files, or of twelve paradigms (`probe/language/paradigms.py`), which are
easier and far fewer than BLiMP's 67: compare a variant with its teacher on them, not a model with published figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from probe.against_teacher import change_metric, paired_change, with_teacher
from probe.by_sentence import share_interval
from probe.language.json_lines import setting_files
from probe.language.pairs import read_pairs
from probe.language.paradigms import Pair, draw_pairs
from probe.language.read_texts import as_language_model
from probe.language.sentence_scores import Masking, score_texts
from probe.probe import Findings, Probe, ProbeContext

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor

TIE = 1e-4  # nats: what float32 sums of one sentence may differ by from batch to batch
MAX_EXAMPLES = 20


@dataclass(frozen=True)
class Scored:
    """good, bad: float64 [pairs] in nats, NaN for pairs of which the model cannot read all; same: bool [pairs], both
    sentences are the same tokens."""

    good: np.ndarray
    bad: np.ndarray
    same: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """[pairs]: 1 right, 0 wrong, 0.5 a tie, NaN where the pair does not count."""
        margin = self.good - self.bad
        return np.where(np.abs(margin) <= TIE, 0.5, np.where(np.isnan(margin), np.nan, margin > 0))


class MinimalPairsProbe(Probe):
    """`samples` pairs of each paradigm, from the JSONL file or folder `pairs`, or made up where there is none.

    `masking` is that of `probe/language/sentence_scores.py`."""

    pairs: str | None = Field(None, min_length=1)
    samples: PositiveInt = 100
    masking: Masking = "word_l2r"

    def inputs(self) -> list[Path]:
        return [] if self.pairs is None else setting_files(self.pairs, "minimal_pairs.pairs")

    def check(self) -> None:
        self._drawn(seed=0)

    def tiny(self) -> MinimalPairsProbe:
        return self.model_copy(update={"samples": 2})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """A tie counts half. NotGiven unless the model names tokens."""
        pairs = self._drawn(ctx.seed)
        own, theirs = with_teacher(self, model, ctx, lambda of: self._score(of, pairs))
        if np.isnan(own.right).all():
            return Findings(skipped=f"none of {len(pairs)} pairs is read to its end (data.max_length)")
        everything = _told(np.arange(len(pairs)), own, theirs)
        details = {
            "masking": self.masking if model.artifact.task == "fill-mask" else None,
            "ties": everything["ties"],
            "same_tokens": everything["same_tokens"],
            "left_out": {"cut": int(np.isnan(own.right).sum())},
            "paradigms": [
                {"paradigm": name, "field": field} | _told(rows, own, theirs)
                for (name, field), rows in _by_paradigm(pairs).items()
            ],
            "lost": _lost(pairs, own, theirs) if theirs else [],
        }
        return Findings(_headline(everything), details)

    def _drawn(self, seed: int) -> list[Pair]:
        if self.pairs is None:
            return draw_pairs(self.samples, seed)
        pairs = read_pairs(self.inputs())
        random = Random(seed)
        drawn = [
            sorted(random.sample(rows.tolist(), min(self.samples, len(rows)))) for rows in _by_paradigm(pairs).values()
        ]
        return [pairs[row] for rows in drawn for row in rows]

    def _score(self, model: Predictor, pairs: list[Pair]) -> Scored:
        texts = [text for pair in pairs for text in (pair.good, pair.bad)]
        scores = score_texts(as_language_model(model, "minimal_pairs"), texts, self.masking)
        totals = np.array([np.nan if each.read.cut else each.total for each in scores])
        same = [good.read.ids == bad.read.ids for good, bad in zip(scores[::2], scores[1::2], strict=True)]
        return Scored(totals[::2], totals[1::2], np.array(same, dtype=bool))


def _by_paradigm(pairs: list[Pair]) -> dict[tuple[str, str], np.ndarray]:
    """(paradigm, field) -> positions of its pairs."""
    rows: dict[tuple[str, str], list[int]] = {}
    for row, pair in enumerate(pairs):
        rows.setdefault((pair.paradigm, pair.field), []).append(row)
    return {name: np.array(each) for name, each in rows.items()}


def _told(rows: np.ndarray, own: Scored, theirs: Scored | None) -> dict[str, Any]:
    """Of the pairs `rows`: accuracy with its Wilson interval, and what became of it since the teacher."""
    right = own.right[rows]
    counted = right[np.isfinite(right)]
    low, high = share_interval(counted, np.arange(len(counted)))
    told = {
        "n": len(counted),
        "accuracy": float(counted.mean()) if len(counted) else None,
        "low": low,
        "high": high,
        "ties": int((counted == 0.5).sum()),
        "same_tokens": int((own.same[rows] & np.isfinite(right)).sum()),
    }
    if theirs is None:
        return told
    before = theirs.right[rows]
    return told | {
        "won": int((right > before).sum()),
        "lost": int((right < before).sum()),
        "teacher": paired_change(right, before, np.arange(len(rows))),
    }


def _headline(told: dict[str, Any]) -> list[Metric]:
    accuracy = Metric("pairs_accuracy", told["accuracy"], "fraction", True, told["n"], told["low"], told["high"])
    if "teacher" not in told:
        return [accuracy]
    n = told["teacher"]["n"]
    return [
        accuracy,
        change_metric("pairs_change", told["teacher"]),
        Metric("pairs_won", told["won"], "pairs", True, n),
        Metric("pairs_lost", told["lost"], "pairs", False, n),
    ]


def _lost(pairs: list[Pair], own: Scored, theirs: Scored) -> list[dict[str, Any]]:
    """Pairs that only the teacher has right, those first that the variant is surest of."""
    lost = np.flatnonzero(own.right < theirs.right)
    order = lost[np.argsort((own.good - own.bad)[lost], kind="stable")][:MAX_EXAMPLES]
    return [
        {
            "paradigm": pairs[row].paradigm,
            "good": pairs[row].good,
            "bad": pairs[row].bad,
            "margin": float(own.good[row] - own.bad[row]),
            "teacher_margin": float(theirs.good[row] - theirs.bad[row]),
        }
        for row in order
    ]
