"""Where each head looks: entropy, distance, weight on separators, on punctuation, on the token itself and on those
beside it (Clark et al. 2019, "What Does BERT Look At?").

Entropy is 0 when a head looks at one token and log n when it looks at all n alike. The paper averages over whole
sequences of 128 tokens; here every real token of every text counts the same, and padding does not count. Weight on the
token before is the mean over the tokens that have one before them, and so with the token after: a token that has none
cannot look there. Texts of one token are left out, since that can look at nothing else.

Of a decoder above an encoder its cross attention is told too: from each of its places to the encoder's tokens. Distance
is from the token at that place, which is the next one after those that the decoder has read, so the one before it is
the last that was read.

Of images distance is in the plane and in patches (mean attention distance of Dosovitskiy et al. 2021, "An Image is
Worth 16x16 Words", there in pixels), and beside a patch are those to the left and right, above and below. The model's
own tokens have no place; weight on them is that on separators. Distance is of the attention from patches to patches,
divided by its sum, so that a head with half of it on the class token is not taken for one that looks near.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PositiveInt

from assay.core.artifact import is_image
from assay.core.metric import Metric
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor, WhiteBox
    from probe.attention_statistics import AttentionSums
    from probe.flow.token_kinds import PatchKinds, TokenKinds
    from probe.heads.maps import HeadList
    from probe.heads.places import Line, Plane

Numbers = Sequence[tuple[int, Sequence[int]]]  # layer and heads
HEADLINES = {
    "entropy": "mean_entropy",
    "distance": "mean_distance",
    "separators": "separator_share",
    "punctuation": "punctuation_share",
}


class AttentionProbe(Probe):
    """`samples` rows of the test split are read."""

    version: ClassVar[int] = 3
    needs: ClassVar[Needs] = "torch"
    images: ClassVar[bool] = True

    samples: PositiveInt = 200

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Layers and heads carry their numbers in the original model; headline metrics are means over all heads.
        NotGiven from a model that shows no attention, or no tokenizer."""
        from probe.attention_statistics import AttentionSums
        from probe.heads.maps import HeadList, maps_of
        from probe.heads.places import standing_of
        from probe.white_box import as_white_box
        from probe.word_pieces import encoder_of

        box, encoder = as_white_box(model), encoder_of(ctx.states.of(model))
        standing, kinds = standing_of(encoder), _kinds(encoder, ctx)
        upper = _cross_layers(box)
        own, cross = (AttentionSums(heads, standing, kinds) for heads in (HeadList.of(box), _cross_heads(upper)))
        rows = ctx.data.test.take(draw_rows(ctx.data.test.labels, self.samples, ctx.seed))
        for batch in box.states(rows.texts, attentions=True):
            for sums, weights in ((own, batch.attentions), (cross, batch.cross)):
                for maps in maps_of(replace(batch, attentions=weights), sums.heads):
                    sums.add(maps)
        if not own.rows:
            return Findings(skipped=f"0 of {len(rows)} rows have two tokens or more and attention over them")
        layers, crossing = _layers(zip(box.layers, box.heads, strict=True), own), _layers(upper, cross)
        metrics = _headline(layers, standing, own.rows) + _headline(crossing, standing, own.rows, "cross_")
        return Findings(metrics, {"layers": layers, "cross": crossing, "n_rows": own.rows})

    def tiny(self) -> AttentionProbe:
        return self.model_copy(update={"samples": 16})


def _kinds(encoder: Any, ctx: ProbeContext) -> TokenKinds | PatchKinds:
    """Which tokens are separators and punctuation; whether a word is common is not asked, so no counts are needed."""
    import torch

    from probe.flow.token_kinds import PatchKinds, TokenKinds
    from probe.heads.rarity import TokenCounts

    if is_image(ctx.data.task):
        return PatchKinds()
    return TokenKinds(encoder.tokenizer, TokenCounts(torch.zeros(0, dtype=torch.int64)))


def _cross_layers(model: WhiteBox) -> Numbers:
    """Of each decoder layer above an encoder its number and those of its cross-attention heads."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.edits import layout_of

    if len(family_of(model.artifact.family).stacks) == 1:
        return []
    layout = layout_of(model.artifact.config, model.artifact.edits)
    return [(layer.index, layer.cross) for layer in layout.layers if layer.stack > 0]


def _cross_heads(layers: Numbers) -> HeadList:
    """These heads in one list; what they look at are the encoder's tokens, all of them."""
    import torch

    from probe.heads.maps import HeadList

    numbers = [(layer, head) for layer, heads in layers for head in heads]
    neither = torch.zeros(len(numbers), dtype=torch.bool)
    return HeadList(numbers, [len(heads) for _, heads in layers], neither, neither)


def _layers(numbers: Iterable[tuple[int, Sequence[int]]], sums: AttentionSums) -> list[dict[str, Any]]:
    told = iter(sums.told())
    return [{"layer": layer, "heads": [{"head": head, **next(told)} for head in heads]} for layer, heads in numbers]


def _headline(layers: Iterable[dict[str, Any]], standing: Line | Plane, n: int, prefix: str = "") -> list[Metric]:
    """Means over all heads; nothing where there are none."""
    heads = [head for layer in layers for head in layer["heads"]]
    names = [name for name in heads[0] if name != "head"] if heads else []
    units = {"entropy": "nats", "distance": standing.unit}
    return [
        Metric(prefix + _called(name, standing), _mean(heads, name), units.get(name, "fraction"), None, n)
        for name in names
    ]


def _called(name: str, standing: Line | Plane) -> str:
    return HEADLINES.get(name, f"{name}_{standing.token}_share")


def _mean(heads: Sequence[dict[str, Any]], name: str) -> float | None:
    """Over the heads that have the figure: one that looks at no patch has no distance."""
    known = [head[name] for head in heads if head[name] is not None]
    return sum(known) / len(known) if known else None
