"""Where each head looks: entropy, distance and weight on separators (Clark et al. 2019, "What Does BERT Look At?").

Entropy is 0 when a head looks at one token and log n when it looks at all n alike. The paper averages over whole
sequences of 128 tokens; here every real token of every text counts the same, and padding does not count.

Of a decoder above an encoder its cross attention is told too: from each of its places to the encoder's tokens, with the
distance to the token at that place, which is the next one after those that the decoder has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PositiveInt

from assay.core.metric import Metric
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor, WhiteBox
    from probe.attention_statistics import AttentionSums

Numbers = Sequence[tuple[int, Sequence[int]]]  # layer and heads
UNITS = {"entropy": "nats", "distance": "tokens", "separators": "fraction"}
HEADLINES = {"entropy": "mean_entropy", "distance": "mean_distance", "separators": "separator_share"}


class AttentionProbe(Probe):
    """`samples` rows of the test split are read."""

    version: ClassVar[int] = 2
    needs: ClassVar[Needs] = "torch"
    images: ClassVar[bool] = True

    samples: PositiveInt = 200

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Layers and heads carry their numbers in the original model; headline metrics are means over all heads."""
        from probe.attention_statistics import AttentionSums
        from probe.white_box import as_white_box

        box = as_white_box(model)
        own, upper = list(zip(box.layers, box.heads, strict=True)), _cross_heads(box)
        sums, cross = (AttentionSums([len(heads) for _, heads in numbers]) for numbers in (own, upper))
        rows = ctx.data.test.take(draw_rows(ctx.data.test.labels, self.samples, ctx.seed))
        for batch in box.states(rows.texts, attentions=True):
            sums.add(batch)
            cross.add(replace(batch, attentions=batch.cross))
        if sums.tokens == 0 or not any(box.heads):
            return Findings(skipped=f"{sums.tokens} tokens in {len(rows)} test rows, {sum(map(len, box.heads))} heads")
        layers, crossing = _layers(own, sums), _layers(upper, cross)
        metrics = _headline(layers, len(rows)) + _headline(crossing, len(rows), "cross_")
        return Findings(metrics, {"layers": layers, "cross": crossing, "n_rows": len(rows)})

    def tiny(self) -> AttentionProbe:
        return self.model_copy(update={"samples": 16})


def _cross_heads(model: WhiteBox) -> Numbers:
    """Of each decoder layer above an encoder its number and those of its cross-attention heads."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.edits import layout_of

    if len(family_of(model.artifact.family).stacks) == 1:
        return []
    layout = layout_of(model.artifact.config, model.artifact.edits)
    return [(layer.index, layer.cross) for layer in layout.layers if layer.stack > 0]


def _layers(numbers: Numbers, sums: AttentionSums) -> list[dict[str, Any]]:
    layers = zip(numbers, sums.means(), strict=True)
    return [{"layer": layer, "heads": _heads(heads, means.tolist())} for (layer, heads), means in layers]


def _heads(heads: Sequence[int], means: list[list[float]]) -> list[dict[str, Any]]:
    return [{"head": head, **dict(zip(UNITS, row, strict=True))} for head, row in zip(heads, means, strict=True)]


def _headline(layers: Iterable[dict[str, Any]], n: int, prefix: str = "") -> list[Metric]:
    """Means over all heads; nothing where there are none."""
    heads = [head for layer in layers for head in layer["heads"]]
    if not heads:
        return []
    return [
        Metric(f"{prefix}{HEADLINES[name]}", sum(head[name] for head in heads) / len(heads), unit, None, n)
        for name, unit in UNITS.items()
    ]
