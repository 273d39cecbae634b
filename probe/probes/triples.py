"""Whether a masked language model holds true triples of head, relation and tail for likelier than false ones, by the
mutual information of head and tail (Davison, Feldman and Rush 2019; `probe/language/mutual_information.py`).

The figure does not depend on how common the words are, as the probability of a fact does (see `cloze`). With labels:
the area under the ROC curve, and accuracy at the threshold that is best on other triples, those of the file
`validation` or, where there is none, the other half of the same ones. The paper parts the scores by two Gaussians,
without labels. A causal model is not asked: it knows only what stands before a word, so that a head given its tail has
no probability, nor a tail without its head.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from assay.core.errors import NotGiven, SettingError
from assay.core.metric import Metric
from assay.core.stats import bootstrap_interval, correlation_interval
from probe.against_teacher import change_metric, paired_change, with_teacher
from probe.language.mutual_information import Information, score_triples
from probe.language.read_texts import as_language_model
from probe.language.triples import Triple, check_templates, read_triples
from probe.numbered_lines import setting_file
from probe.probe import Findings, Probe, ProbeContext
from probe.rates import rate
from probe.separation import area, best_threshold

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor


@dataclass(frozen=True)
class Scored:
    """Of one model: what it says of each triple, its scores [triples], NaN for those that cannot be asked, and 1 where
    the threshold calls it what it is, 0 where not, NaN without score or label."""

    found: list[Information]
    scores: np.ndarray
    right: np.ndarray
    thresholds: list[float]


class TriplesProbe(Probe):
    """`samples` triples of the file `triples` are scored, with mutual information weighted by `weight`. `templates`:
    relation -> sentences with [X] for the head and [Y] for the tail. `validation`: a file of labelled triples by which
    the threshold is chosen."""

    triples: str = Field(min_length=1)
    templates: dict[str, list[str]] = Field(min_length=1)
    validation: str | None = Field(None, min_length=1)
    samples: PositiveInt = 500
    weight: PositiveFloat = 1.0

    def inputs(self) -> list[Path]:
        return [setting_file(each, f"triples.{name}") for name, each in self._files().items()]

    def check(self) -> None:
        triples, validation = self._read()
        check_templates(self.templates, [*triples, *validation], "triples.templates")
        if validation and None in {each.label for each in (triples[0], validation[0])}:
            raise SettingError("triples.validation", "a threshold needs labels in this file and in that of the triples")

    def tiny(self) -> TriplesProbe:
        return self.model_copy(update={"samples": 8})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """NotGiven unless the model fills masks."""
        triples, validation = (self._drawn(each, ctx.seed) for each in self._read())
        own, theirs = with_teacher(self, model, ctx, lambda of: self._score(of, triples, validation, ctx.seed))
        left_out = dict(Counter(each.obstacle for each in own.found if each.obstacle))
        if np.isnan(own.scores).all():
            told = ", ".join(f"{count}: {reason}" for reason, count in left_out.items())
            return Findings(skipped=f"none of {len(triples)} triples can be asked; {told}")
        labels = np.array([np.nan if each.label is None else each.label for each in triples], dtype=np.float64)
        details = {
            "weight": self.weight,
            "left_out": left_out,
            "thresholds": [each if np.isfinite(each) else None for each in own.thresholds],
            "relations": _relations(triples, labels, own),
            "ranking": _ranking(triples, own, theirs),
        }
        return Findings(_headline(labels, own, theirs), details)

    def _files(self) -> dict[str, str]:
        return {"triples": self.triples} | ({} if self.validation is None else {"validation": self.validation})

    def _read(self) -> list[list[Triple]]:
        """The triples, and those of the validation file, none without one."""
        read = [read_triples(path) for path in self.inputs()]
        return read if len(read) > 1 else [*read, []]

    def _drawn(self, triples: list[Triple], seed: int) -> list[Triple]:
        rows = Random(seed).sample(range(len(triples)), min(self.samples, len(triples)))
        return [triples[row] for row in sorted(rows)]

    def _score(self, model: Predictor, triples: list[Triple], validation: list[Triple], seed: int) -> Scored:
        named = as_language_model(model, "triples")
        if named.asker.task != "fill-mask":
            raise NotGiven("triples hides heads and tails in the middle of sentences: task fill-mask")
        found = score_triples(named, [*triples, *validation], self.templates)
        scores = np.array([each.score(self.weight) for each in found])
        labels = np.array([np.nan if each.label is None else each.label for each in (*triples, *validation)])
        right, thresholds = _judged(scores, labels.astype(np.float64), len(triples), seed)
        return Scored(found[: len(triples)], scores[: len(triples)], right, thresholds)


def _judged(scores: np.ndarray, labels: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, list[float]]:
    """(float64 [count], the thresholds). The first `count` items are judged, by the others or in halves by each
    other."""
    known = np.isfinite(scores) & np.isfinite(labels)
    items = np.arange(len(scores))
    folds = [(items < count, items >= count)]
    if len(scores) == count:
        half = np.random.default_rng(seed).permutation(count) % 2 == 0
        folds = [(half, ~half), (~half, half)]
    right, thresholds = np.full(len(scores), np.nan), []
    for judged, by in folds:
        if (judged & known).any() and (by & known).any():
            thresholds.append(best_threshold(scores[by & known], labels[by & known]))
            right[judged & known] = (scores >= thresholds[-1])[judged & known] == labels[judged & known]
    return right[:count], thresholds


def _headline(labels: np.ndarray, own: Scored, theirs: Scored | None) -> list[Metric]:
    scores = own.scores[np.isfinite(own.scores)]
    bounds = bootstrap_interval(lambda values: values.mean(axis=-1), scores, vectorized=True)
    metrics = [Metric("triples_pmi", float(scores.mean()), "nats", None, len(scores), *bounds)]
    judged = np.isfinite(own.right)
    if judged.any():
        metrics = [*_separated(labels, own), *metrics]
    return metrics if theirs is None else [*metrics, *_beside(own, theirs)]


def _separated(labels: np.ndarray, own: Scored) -> list[Metric]:
    """Area, accuracy, and what always giving the commoner label would get."""
    known, judged = np.isfinite(own.scores) & np.isfinite(labels), np.isfinite(own.right)
    scores, truth, n = own.scores[known], labels[known], int(judged.sum())
    value, bounds = _area(scores, truth), bootstrap_interval(area, scores, truth, vectorized=True)
    true = int(labels[judged].sum())
    return [
        Metric("triples_auc", value, "fraction", True, len(truth), *bounds),
        rate("triples_accuracy", int(own.right[judged].sum()), n, True),
        Metric("triples_majority", max(true, n - true) / n, "fraction", None, n),
    ]


def _area(scores: np.ndarray, labels: np.ndarray) -> float | None:
    value = float(area(scores, labels))
    return value if np.isfinite(value) else None


def _beside(own: Scored, theirs: Scored) -> list[Metric]:
    """Beside the teacher, on the triples that both can be asked."""
    metrics = []
    if np.isfinite(own.right).any():
        change = paired_change(own.right, theirs.right, np.arange(len(own.right)))
        metrics = [
            change_metric("triples_change", change),
            Metric("triples_won", int((own.right > theirs.right).sum()), "triples", True, change["n"]),
            Metric("triples_lost", int((own.right < theirs.right).sum()), "triples", False, change["n"]),
        ]
    return [*metrics, _correlation(own.scores, theirs.scores)]


def _correlation(scores: np.ndarray, others: np.ndarray) -> Metric:
    """Spearman's, no value where one model scores all alike."""
    from scipy.stats import spearmanr

    name, unit, both = "triples_teacher_spearman", "correlation", np.isfinite(scores) & np.isfinite(others)
    own, theirs = scores[both], others[both]
    if not len(own) or not np.ptp(own) or not np.ptp(theirs):
        return Metric(name, None, unit, True, len(own))
    value = float(spearmanr(own, theirs).statistic)
    return Metric(name, value, unit, True, len(own), *correlation_interval(value, len(own), ranks=True))


def _relations(triples: list[Triple], labels: np.ndarray, own: Scored) -> list[dict[str, Any]]:
    told = []
    for name in dict.fromkeys(each.relation for each in triples):
        rows = np.array([each.relation == name for each in triples]) & np.isfinite(own.scores)
        right, truth = own.right[rows], labels[rows]
        told.append({
            "relation": name,
            "n": int(rows.sum()),
            "pmi": float(own.scores[rows].mean()) if rows.any() else None,
            "auc": _area(own.scores[rows], truth) if rows.any() else None,
            "accuracy": float(np.nanmean(right)) if np.isfinite(right).any() else None,
            "templates": dict(Counter(own.found[row].template for row in np.flatnonzero(rows))),
        })  # fmt: skip
    return told


def _ranking(triples: list[Triple], own: Scored, theirs: Scored | None) -> list[dict[str, Any]]:
    """Every triple that can be asked, the highest score first."""
    order = np.argsort(-own.scores, kind="stable")  # NaN goes last
    return [
        {
            "head": triples[row].head,
            "relation": triples[row].relation,
            "tail": triples[row].tail,
            "label": triples[row].label,
            "sentence": own.found[row].sentence,
            "score": float(own.scores[row]),
            "teacher_score": float(theirs.scores[row]) if theirs and np.isfinite(theirs.scores[row]) else None,
        }
        for row in order.tolist()
        if np.isfinite(own.scores[row])
    ]
