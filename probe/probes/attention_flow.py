"""What the token that the classifier reads has taken from each token of a text, by attention of all layers together:
attention rollout and attention flow (Abnar and Zuidema 2020).

Attention of one layer mixes states that are mixtures already, so the last layer alone does not tell what comes from
which token (`probe/flow/rollout.py`). Self-attention alone is followed, with the residual connection at half; what the
feed-forward parts and the values do is not in it, so this is where information can have come from and not what is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from probe.against_teacher import with_teacher
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.flow.reading import FlowReading, Row

Told = dict[str, Any]
Weights = np.ndarray | None
COMPARED = ("rollout", "flow", "last_layer")
DIGITS = 7  # to which float32 attention is exact: what differs less is tied


class AttentionFlowProbe(Probe):
    """`samples` rows of the test split are read; of `flow_samples` of them, where they have at most `flow_tokens`
    tokens, the flow is taken too."""

    needs: ClassVar[Needs] = "torch"
    images: ClassVar[bool] = True

    samples: PositiveInt = 200
    flow_samples: int = Field(50, ge=0)
    flow_tokens: PositiveInt = 64

    def tiny(self) -> AttentionFlowProbe:
        return self.model_copy(update={"samples": 16, "flow_samples": 4})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are the shares of the rollout by kind of token, its distance, and its rank correlation with
        the last layer's attention and with the teacher's rollout. NotGiven from a model that shows no attention."""
        own, theirs = with_teacher(self, model, ctx, lambda of: self._read(of, ctx))
        if not own.rows:
            return Findings(skipped=f"0 of {len(own.offsets)} texts have two tokens and attention over them")
        told = _told(own) | {"teacher": _against(own, theirs) if theirs else None}
        return Findings(_headline(told), told)

    def _read(self, model: Predictor, ctx: ProbeContext) -> FlowReading:
        from probe.flow.reading import FlowReader
        from probe.flow.token_kinds import kinds_for
        from probe.white_box import as_white_box
        from probe.word_pieces import encoder_of

        encoder = encoder_of(ctx.states.of(model))
        rows = ctx.data.test.take(draw_rows(ctx.data.test.labels, self.samples, ctx.seed))
        flows = frozenset(draw_rows(rows.labels, self.flow_samples, ctx.seed).tolist())
        reader = FlowReader(as_white_box(model), encoder, kinds_for(encoder, ctx), flows, self.flow_tokens)
        return reader.read(rows.texts)


def _told(own: FlowReading) -> Told:
    """Plain data of one model: where each measure looks, beside tokens that count alike, and how they agree."""
    rows = list(own.rows.values())
    looks = [row.looks for row in rows]
    by_layer = [[(row, row.by_layer[at]) for row in rows] for at in range(len(own.layers))]
    return {
        **{
            name: _by_kind(own, [(row, each[name]) for row, each in zip(rows, looks, strict=True)]) for name in looks[0]
        },
        "by_layer": [{"layer": at, **_by_kind(own, found)} for at, found in zip(own.layers, by_layer, strict=True)],
        "rollout_and_last_layer": _agreement([(each["rollout"], each["last_layer"]) for each in looks]),
        "rollout_and_flow": _agreement([(each["rollout"], each["flow"]) for each in looks]),
        "n_rows": len(rows),
    }


def _by_kind(reading: FlowReading, found: Sequence[tuple[Row, Weights]]) -> Told:
    """Mean over the rows that have weights of their share on each kind of token, and of their distance; of images none,
    since the token that is read has no place among the patches."""
    from probe.attribution.agreement import mean_of
    from probe.flow.token_kinds import shares

    known = [(row, weights) for row, weights in found if weights is not None]
    if not known:
        return {"n": 0}
    by_kind = np.stack([shares(weights, row.kinds, len(reading.kinds)) for row, weights in known]).T
    figures = dict(zip(reading.kinds, by_kind, strict=True))
    if "patches" not in reading.kinds:
        figures["distance"] = np.array([row.distance(weights) for row, weights in known])
    means = {name: mean_of(values) for name, values in figures.items()}
    told = {name: dict(zip(("mean", "low", "high"), each, strict=True)) for name, each in means.items()}
    return told | {"n": len(known)}


def _agreement(pairs: Sequence[tuple[Weights, Weights]]) -> Told:
    """Spearman's correlation over a row's tokens, mean over the rows that have both weights and no constant ones."""
    from probe.attribution.agreement import mean_of, spearman

    both = [(one.round(DIGITS), other.round(DIGITS)) for one, other in pairs if one is not None and other is not None]
    known = [spearman(one, other) for one, other in both if np.ptp(one) and np.ptp(other)]
    mean, low, high = mean_of(np.array(known))
    return {"spearman": mean, "low": low, "high": high, "n": len(known)}


def _against(own: FlowReading, theirs: FlowReading) -> Told:
    """Agreement with the teacher on the rows of which both read the same tokens; the others are `left_out`."""
    same = [row for row in own.rows if row in theirs.rows and own.offsets[row] == theirs.offsets[row]]
    looks = [(own.rows[row].looks, theirs.rows[row].looks) for row in same]
    told: Told = {"left_out": len(own.rows) - len(same)}
    return told | {name: _agreement([(one[name], other[name]) for one, other in looks]) for name in COMPARED}


def _headline(told: Told) -> list[Metric]:
    n = told["n_rows"]
    metrics = [
        _metric(f"rollout_{name}", found, "tokens" if name == "distance" else "fraction", n)
        for name, found in told["rollout"].items()
        if name != "n"
    ]
    pairs = [("rollout_last_layer_spearman", told["rollout_and_last_layer"])]
    if told["teacher"]:
        pairs += [("rollout_teacher_spearman", told["teacher"]["rollout"])]
    return metrics + [_metric(name, found, "correlation", found["n"], "spearman") for name, found in pairs]


def _metric(name: str, found: Told, unit: str, n: int, key: str = "mean") -> Metric:
    return Metric(name, found[key], unit, None, n, found["low"], found["high"])
