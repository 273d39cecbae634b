"""What heads bring from the tokens that they look at: attention weights beside the norms of what is added (Kobayashi et
al. 2020; `probe/heads/contributions.py`).

Heads that look at separators often bring almost nothing from there, so that a map of weights alone misleads. Single
heads carry their numbers in the original model, and a variant's are held against its teacher's head by head.
Self-attention only; what follows the heads (residual connection, norms, feed-forward part) is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from assay.core.errors import NotGiven
from assay.core.metric import Metric
from probe.against_teacher import change_metric, paired_change, with_teacher
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor

Told = dict[str, Any]
SHOWN = {"separator": "separators", "punctuation": "punctuation"}
CORRELATIONS = ("spearman_length", "spearman_contribution")


class AttentionNormsProbe(Probe):
    """`samples` rows of the test split are read. The order of what a token looks at is taken from at most
    `tokens_per_text` tokens of a text."""

    needs: ClassVar[Needs] = "torch"
    images: ClassVar[bool] = True

    samples: PositiveInt = 200
    tokens_per_text: PositiveInt = 16

    def tiny(self) -> AttentionNormsProbe:
        return self.model_copy(update={"samples": 16})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are means over heads; `details` hold every head. NotGiven from a model that is no torch
        module, or shows no tokenizer."""
        own, theirs = with_teacher(self, model, ctx, lambda of: self._read(of, ctx))
        if not own["heads"] or not own["n_rows"]:
            return Findings(skipped=f"{own['n_rows']} texts of two tokens or more, {len(own['heads'])} heads")
        changes = None if theirs is None else _changes(own["heads"], theirs["heads"])
        metrics = _headline(own["heads"], own["n_rows"])
        if changes is not None:
            metrics += [change_metric(f"{name}_contribution_change", change) for name, change in changes.items()]
        return Findings(metrics, own | {"teacher": changes})

    def _read(self, model: Predictor, ctx: ProbeContext) -> Told:
        from assay.core.model.predict import TorchPredictor
        from probe.flow.token_kinds import kinds_for
        from probe.heads.contributions import ContributionSums, read_contributions
        from probe.heads.maps import HeadList
        from probe.word_pieces import encoder_of

        if not isinstance(model, TorchPredictor):
            raise NotGiven(f"{model.artifact.path.name} is no torch module, and values are read by hooks on one")
        encoder, heads = encoder_of(ctx.states.of(model)), HeadList.of(model)
        sums = ContributionSums(heads, kinds_for(encoder, ctx), self.tokens_per_text)
        rows = ctx.data.test.take(draw_rows(ctx.data.test.labels, self.samples, ctx.seed))
        for brought in read_contributions(model, heads, rows.texts):
            sums.add(brought)
        return {"heads": sums.told() if sums.rows else [], "n_rows": sums.rows}


def _headline(heads: list[Told], n: int) -> list[Metric]:
    shares = [
        Metric(f"{name}_{way}", _mean([head[way][kind] for head in heads]), "fraction", None, n)
        for name, kind in SHOWN.items()
        if kind in heads[0]["weight"]  # images have no punctuation
        for way in ("weight", "contribution")
    ]
    orders = [
        Metric(f"weight_{name}", _mean([head[name] for head in heads]), "correlation", None, n) for name in CORRELATIONS
    ]
    return shares + orders


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _changes(own: list[Told], full: list[Told]) -> dict[str, Told]:
    """Of each share of contributions the mean change over the heads that both models have; heads are drawn for the
    interval."""
    before = {(head["layer"], head["head"]): head for head in full}
    pairs = [(head, before[at]) for head in own if (at := (head["layer"], head["head"])) in before]
    changes = {}
    for name, kind in SHOWN.items():
        if any(kind not in head["contribution"] for head in (*own[:1], *full[:1])):
            continue
        ours, theirs = (
            np.array([pair[side]["contribution"][kind] for pair in pairs], dtype=np.float64) for side in (0, 1)
        )
        changes[name] = paired_change(ours, theirs, np.arange(len(pairs)))
    return changes
