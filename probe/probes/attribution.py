"""Which words the answer rests on, in the teacher and in each variant, and whether they are the same.

Three methods: integrated gradients (Sundararajan et al. 2017) and gradient times input on the word embeddings, and
occlusion. A graph gives no gradients, so for ONNX variants occlusion stands alone. Tokens are summed to words; a
variant is compared with its teacher on the same words of the same rows. How far the figures can be trusted is told
beside them: completeness of the integrated gradients, agreement of the methods with each other, and faithfulness
(DeYoung et al. 2020) against words drawn at random.

What an answer rests on is not what is right: a model can agree with its teacher in resting on the wrong words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import PositiveInt

from assay.core.artifact import is_language
from assay.core.errors import NotGiven
from assay.core.metric import Metric
from probe.against_teacher import with_teacher
from probe.attribution.compared import Compared
from probe.attribution.explained import INTEGRATED, Baseline, Explained, explain
from probe.attribution.faithfulness import FALLS, faithfulness
from probe.attribution.readings import words_of
from probe.attribution.shown import choose, example
from probe.probe import Findings, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.data.prepare import JobData, Split
    from assay.core.model.predict import Predictor

MOST_ERROR = 0.05  # beyond it the integral is too coarse to be read word by word
NO_GRADIENTS = "gradients are not available on an ONNX graph: occlusion alone is reported"


class AttributionProbe(Probe):
    """`samples` test rows are explained, each of more than `top` words. `steps` points stand between the `baseline` and
    the text; `target` is the label whose logit is explained."""

    samples: PositiveInt = 50
    steps: PositiveInt = 20
    baseline: Baseline = "pad"
    target: Literal["predicted", "label"] = "predicted"
    top: PositiveInt = 3

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """NotGiven where the tokenizer does not tell where its tokens stand or lacks the baseline's token, and for the
        `label` of rows that have several, and for a language model; skipped without a row that is long enough."""
        if is_language(ctx.data.task):
            raise NotGiven(f"attribution explains the label of a text, and a {ctx.data.task} model gives none")
        rows = self._sample(ctx.data)
        rows = rows.take(draw_rows(rows.labels, self.samples, ctx.seed))
        own, theirs = with_teacher(self, model, ctx, lambda of: self._explain(of, rows, ctx.data.task))
        compared = Compared(own, theirs, self.top)
        if not compared.rows:
            return Findings(skipped=f"no test row has more than {self.top} words that are read: lower attribution.top")
        details = self._details(model, ctx, rows, compared)
        return Findings(_headline(details), details)

    def tiny(self) -> AttributionProbe:
        return self.model_copy(update={"samples": 8, "steps": 4})

    def _sample(self, data: JobData) -> Split:
        """Test rows that are long enough, and for `target: label` have a label that is known."""
        kept = np.array([len(words_of(text)) > self.top for text in data.test.texts], dtype=bool)
        if self.target == "label" and data.task == "multi-label-classification":
            raise NotGiven("attribution.target: label wants one label a row, this job has several; set it to predicted")
        if self.target == "label" and data.task == "text-classification":
            kept &= data.test.labels >= 0
        return data.test.take(np.flatnonzero(kept))

    def _explain(self, model: Predictor, rows: Split, task: str) -> Explained:
        labels = rows.labels if self.target == "label" and task == "text-classification" else None
        return explain(model, rows.texts, labels, self.baseline, self.steps)

    def _details(self, model: Any, ctx: ProbeContext, rows: Split, compared: Compared) -> dict[str, Any]:
        own, theirs, task = compared.own, compared.theirs, ctx.data.task
        same = compared.same_answers(task)
        completeness = _completeness(own)
        return {
            "n_rows": len(compared.rows),
            "left_out": len(rows) - len(compared.rows),
            "methods": list(own.words),
            "top": self.top,
            "covered_by": own.cover,
            "completeness": completeness,
            "notes": _notes(own, completeness, self.steps),
            "agreement": compared.with_teacher(same) if theirs else [],
            "between_methods": compared.between_methods(),
            "faithfulness": faithfulness(model, own, compared.rows, task, ctx.seed),
            "examples": [
                example(row, rows, own, theirs, compared.shown, ctx.data)
                for row in choose(compared.rows, compared.alike, same)
            ],
        }


def _completeness(found: Explained) -> dict[str, Any] | None:
    """Median and 95th percentile of the relative errors of integrated gradients; None where there are none."""
    known = found.completeness[np.isfinite(found.completeness)]
    if not len(known):
        return None
    return {"median": float(np.median(known)), "p95": float(np.quantile(known, 0.95)), "n": len(known)}


def _notes(found: Explained, completeness: dict[str, Any] | None, steps: int) -> list[str]:
    if INTEGRATED not in found.words:
        return [NO_GRADIENTS]
    if completeness is None or completeness["median"] <= MOST_ERROR:
        return []
    return [
        f"integrated gradients of {steps} steps miss the change of the logit by {completeness['median']:.0%} in the "
        f"median row (at most {MOST_ERROR:.0%} is wanted): do not read them word by word; raise attribution.steps"
    ]


def _headline(details: dict[str, Any]) -> list[Metric]:
    metrics = [each for item in details["agreement"] for each in _agreement_metrics(item)]
    for item in details["faithfulness"]:
        for name, better in zip(FALLS, (True, False), strict=True):
            bounds = (item[f"{name}_low"], item[f"{name}_high"])
            metrics.append(Metric(f"{item['method']}_{name}", item[name], "fraction", better, item["n"], *bounds))
    if completeness := details["completeness"]:
        n = completeness["n"]
        metrics += [Metric(f"completeness_error_{q}", completeness[q], "fraction", False, n) for q in ("median", "p95")]
    return metrics


def _agreement_metrics(item: dict[str, Any]) -> list[Metric]:
    """Of all rows together."""
    if item["rows"] != "all":
        return []
    name, n = item["method"], item["n"]
    overlap = (item["overlap"], "fraction", True, n, item["overlap_low"], item["overlap_high"])
    return [
        Metric(f"{name}_agreement", item["spearman"], "correlation", True, n, item["low"], item["high"]),
        Metric(f"{name}_top_overlap", *overlap),
    ]
