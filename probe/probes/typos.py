"""How easily typing errors flip the label (Pruthi et al. 2019, "Combating Adversarial Misspellings").

Only rows that the model has right can be attacked: rows that are wrong from the start, and texts without a word that
can be misspelt, are skipped with a reason and cost no query. Accuracy under attack counts all rows of the sample.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from assay.core.errors import NotGiven
from assay.core.metric import Metric
from assay.core.stats import to_probabilities
from probe.probe import Findings, Probe, ProbeContext
from probe.rates import rate
from probe.sample import draw_rows
from probe.typo_search import FLIPPED, Target, attack, make_target

if TYPE_CHECKING:
    from assay.core.data.prepare import Split
    from assay.core.model.predict import Predictor

MAX_EXAMPLES = 20
WRONG, NO_WORD = "wrong from the start", "no word to edit"


class TypoProbe(Probe):
    """`samples` rows of the test split are attacked, each with at most `max_edits` misspelt words and `query_budget`
    variations shown to the model (no limit when left out). `stopwords` are never edited."""

    samples: PositiveInt = 100
    max_edits: PositiveInt = 2
    query_budget: NonNegativeInt | None = None
    stopwords: list[str] = Field([])

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """NotGiven when rows have no single class to flip: regression, label sets, hidden labels."""
        if ctx.data.task != "text-classification":
            raise NotGiven(f"typos flip the class of a text, and a {ctx.data.task} job has no single class a text")
        rows = self._sample(ctx)
        clean = _probabilities(model, rows.texts)
        targets, reasons = self._targets(rows, clean)
        attack(targets, lambda texts: _probabilities(model, texts), self.max_edits, self.query_budget, ctx.seed)
        return _findings(rows, clean, targets, reasons, ctx.data.labels)

    def tiny(self) -> TypoProbe:
        return self.model_copy(update={"samples": 8})

    def _sample(self, ctx: ProbeContext) -> Split:
        labelled = ctx.data.test.take(np.flatnonzero(ctx.data.test.labels >= 0))
        if not len(labelled):
            raise NotGiven(f"typos needs rows whose label is known; all {len(ctx.data.test)} test labels are hidden")
        return labelled.take(draw_rows(labelled.labels, self.samples, ctx.seed))

    def _targets(self, rows: Split, clean: np.ndarray) -> tuple[list[Target], Counter[str]]:
        targets, reasons = [], Counter[str]()
        for row, text, label, probabilities in zip(rows.rows, rows.texts, rows.labels.tolist(), clean, strict=True):
            target = make_target(row, text, label, float(probabilities[label]), self.stopwords)
            reason = WRONG if probabilities.argmax() != label else NO_WORD if not target.words else None
            if reason:
                reasons[reason] += 1
            else:
                targets.append(target)
        return targets, reasons


def _probabilities(model: Predictor, texts: list[str]) -> np.ndarray:
    return to_probabilities(model.logits(texts), "text-classification")


def _findings(
    rows: Split, clean: np.ndarray, targets: list[Target], skips: Counter[str], labels: tuple[str, ...]
) -> Findings:
    n, right = len(rows), int((clean.argmax(1) == rows.labels).sum())
    flipped = [target for target in targets if target.outcome == FLIPPED]
    rates = [
        rate("clean_accuracy", right, n, True),
        rate("after_attack_accuracy", right - len(flipped), n, True),
        rate("attack_success_rate", len(flipped), len(targets), False),
    ]
    queries = _mean([target.queries for target in targets])
    details = {
        "examples": [_example(target, labels) for target in flipped[:MAX_EXAMPLES]],
        "clean_accuracy": rates[0].value,
        "after_accuracy": rates[1].value,
        "success_rate": rates[2].value,
        "attacked": len(targets),
        "skipped": n - len(targets),
        "mean_queries": queries,
        "mean_edits": _mean([len(target.edits) for target in flipped]),
        "reasons": dict(skips + Counter(str(target.outcome) for target in targets if target.outcome != FLIPPED)),
    }
    return Findings([*rates, Metric("mean_queries", queries, "queries", True, len(targets))], details)


def _mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _example(target: Target, labels: tuple[str, ...]) -> dict[str, Any]:
    return {
        "row": target.row,
        "text": target.text,
        "perturbed": target.perturbed,
        "label": labels[target.label],
        "before": labels[target.label],
        "after": labels[target.predicted],
        "queries": target.queries,
    }
