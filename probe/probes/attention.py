"""Where each head looks: entropy, distance and weight on separators (Clark et al. 2019, "What Does BERT Look At?").

Entropy is 0 when a head looks at one token and log n when it looks at all n alike. The paper averages over whole
sequences of 128 tokens; here every real token of every text counts the same, and padding does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PositiveInt

from assay.core.metric import Metric
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor, WhiteBox
    from probe.attention_statistics import AttentionSums

UNITS = {"entropy": "nats", "distance": "tokens", "separators": "fraction"}
HEADLINES = {"entropy": "mean_entropy", "distance": "mean_distance", "separators": "separator_share"}


class AttentionProbe(Probe):
    """`samples` rows of the test split are read."""

    needs: ClassVar[Needs] = "torch"

    samples: PositiveInt = 200

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Layers and heads carry their numbers in the original model; headline metrics are means over all heads."""
        from probe.attention_statistics import AttentionSums
        from probe.white_box import as_white_box

        box = as_white_box(model)
        sums = AttentionSums([len(heads) for heads in box.heads])
        rows = ctx.data.test.take(draw_rows(ctx.data.test.labels, self.samples, ctx.seed))
        for batch in box.states(rows.texts, attentions=True):
            sums.add(batch)
        if sums.tokens == 0 or not any(box.heads):
            return Findings(skipped=f"{sums.tokens} tokens in {len(rows)} test rows, {sum(map(len, box.heads))} heads")
        layers = _layers(box, sums)
        return Findings(_headline(layers, len(rows)), {"layers": layers, "n_rows": len(rows)})

    def tiny(self) -> AttentionProbe:
        return self.model_copy(update={"samples": 16})


def _layers(model: WhiteBox, sums: AttentionSums) -> list[dict[str, Any]]:
    layers = zip(model.layers, model.heads, sums.means(), strict=True)
    return [{"layer": layer, "heads": _heads(heads, means.tolist())} for layer, heads, means in layers]


def _heads(heads: tuple[int, ...], means: list[list[float]]) -> list[dict[str, Any]]:
    return [{"head": head, **dict(zip(UNITS, row, strict=True))} for head, row in zip(heads, means, strict=True)]


def _headline(layers: list[dict[str, Any]], n: int) -> list[Metric]:
    heads = [head for layer in layers for head in layer["heads"]]
    return [
        Metric(HEADLINES[name], sum(head[name] for head in heads) / len(heads), unit, None, n)
        for name, unit in UNITS.items()
    ]
