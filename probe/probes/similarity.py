"""How like the teacher's a variant's inner states are, layer against layer, and what shape they have.

Likeness: linear CKA (Kornblith et al. 2019), SVCCA (Raghu et al. 2017), RSA (Kriegeskorte et al. 2008) and the
orthogonal Procrustes distance (Ding et al. 2021). Shape: anisotropy (Ethayarajh 2019), IsoScore (Rudman et al. 2022)
and intrinsic dimension (Facco et al. 2017). On the teacher it compares the layers with each other. Layers have the
numbers of the original model plus one; 0 is the embedding output.

Two models are compared on the vectors of whole texts, which any two models have, and on those of single tokens, where
both read the same ones. Likeness is of the states alone: a variant can be unlike its teacher and answer as it does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.metric import Metric
from probe.fit_memory import check_memory
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.geometry.cloud import Cloud
    from probe.shared_states import SharedStates
    from probe.similarity.comparison import Comparison, Matrix
    from probe.similarity.readings import Readings

Vectors = Literal["texts", "tokens"]
MIN_ROWS = 10
CHUNK = 64  # texts whose vectors are in memory at a time
PARTS = 10  # chunks come in multiples of it, so that the groups of the jackknife are of one size
LIKENESS = (
    ("cka", ("fraction", True)),
    ("svcca", ("fraction", True)),
    ("rsa", ("correlation", True)),
    ("procrustes", ("distance", False)),
)
SHAPES = (("anisotropy", "fraction"), ("isotropy", "fraction"), ("intrinsic_dimension", ""))


class SimilarityProbe(Probe):
    """`samples` rows of the test split are read, and up to `tokens_per_text` tokens of each. The headline metrics are
    those of the first of `vectors`."""

    needs: ClassVar[Needs] = "states"
    images: ClassVar[bool] = True

    samples: PositiveInt = 1000
    tokens_per_text: PositiveInt = 8
    vectors: list[Vectors] = Field(["texts", "tokens"], min_length=1)
    cka: Literal["debiased", "biased"] = "debiased"
    svcca_variance: Annotated[float, Field(gt=0, le=1)] = 0.99
    every_pair: bool = False
    pairwise_samples: PositiveInt = 500
    max_layers: Annotated[int, Field(ge=2)] = 13

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """NotGiven unless both models are white boxes; skipped with fewer than 10 test rows."""
        box, teacher = ctx.states.of(model), ctx.states.of(ctx.teacher)
        rows = draw_rows(ctx.data.test.labels, self.samples, ctx.seed)
        if len(rows) < MIN_ROWS:
            return Findings(skipped=f"{len(rows)} test rows; states are compared on {MIN_ROWS} at least")
        readings = self._read(box, teacher, ctx, rows)
        found = [self._compared(readings, kind) for kind in dict.fromkeys(self.vectors)]
        shapes = _shapes(readings)
        details = {"comparisons": found, "shapes": shapes, "n_texts": len(rows), "n_tokens": readings.cloud.n}
        return Findings(self._likeness(found[0], readings) + _shape_metrics(shapes, readings.cloud), details)

    def tiny(self) -> SimilarityProbe:
        return self.model_copy(update={"samples": 16, "pairwise_samples": 16})

    def _read(self, model: SharedStates, teacher: SharedStates, ctx: ProbeContext, rows: np.ndarray) -> Readings:
        """One pass over the texts, in an order by chance, so that every chunk is a sample of them."""
        from probe.layer_vectors import layer_vectors

        readings = self._readings(model, teacher)
        self._check_memory(readings, len(rows))
        shuffled = np.random.default_rng(ctx.seed).permutation(rows)
        chunks = np.array_split(shuffled, PARTS * -(-len(rows) // (PARTS * CHUNK)))
        for part, chunk in enumerate(chunks):
            told = ([ctx.data.test.texts[row] for row in chunk], chunk.tolist(), self.tokens_per_text, ctx.seed)
            own = layer_vectors(model, *told)
            readings.add(own, own if model is teacher else layer_vectors(teacher, *told), part)
        return readings

    def _readings(self, model: SharedStates, teacher: SharedStates) -> Readings:
        from probe.similarity.readings import Readings, chosen_layers

        own, theirs = model.numbers, teacher.numbers
        return Readings(*chosen_layers(own, theirs, self.max_layers), own, theirs, self.pairwise_samples)

    def _check_memory(self, readings: Readings, rows: int) -> None:
        """NoRoom where the distances of all pairs of rows want more than there is: RSA has those of each layer twice,
        and a few more of the one whose ranks it takes."""
        n = min(rows, self.pairwise_samples)
        need = n * (n - 1) // 2 * 8 * (2 * len(readings.own) + 2 * len(readings.theirs) + 6)
        check_memory(f"the distances of {n:,} rows from each other", need, "lower similarity.pairwise_samples")

    def _compared(self, readings: Readings, kind: Vectors) -> dict[str, Any]:
        """The matrices of one kind of vectors, or why there are none."""
        comparison = readings.texts if kind == "texts" else readings.tokens
        about: dict[str, Any] = {
            "vectors": kind,
            "n": comparison.n,
            "n_pairwise": comparison.n_kept,
            "layers": list(readings.own),
            "teacher_layers": list(readings.theirs),
            "texts_of_other_tokens": readings.unlike if kind == "tokens" else 0,
        }
        if comparison.n < MIN_ROWS:
            return about | {"skipped": _why_none(readings, comparison.n, kind)}
        return about | {"skipped": None} | self._matrices(comparison)

    def _matrices(self, comparison: Comparison) -> dict[str, Matrix]:
        return comparison.matrices(self.cka == "debiased", self.svcca_variance, self.every_pair)

    def _likeness(self, found: dict[str, Any], readings: Readings) -> list[Metric]:
        """Figures of the last layers; of CKA also the interval, and the mean over layers that both have."""
        from probe.similarity.comparison import same_layer

        if found["skipped"]:
            return []
        comparison = readings.texts if found["vectors"] == "texts" else readings.tokens
        low, high = comparison.last_layer_interval(self.cka == "debiased", found["cka"][-1][-1]) or (None, None)
        same = same_layer(found["cka"], comparison.numbers)
        mean = sum(same) / len(same) if same else None
        n = {name: found["n_pairwise" if name == "rsa" else "n"] for name, _ in LIKENESS}
        last = {name: Metric(f"{name}_last_layer", found[name][-1][-1], *about, n[name]) for name, about in LIKENESS}
        cka = replace(last.pop("cka"), low=low, high=high)
        return [cka, Metric("cka_mean_same_layer", mean, "fraction", True, found["n"]), *last.values()]


def _why_none(readings: Readings, n: int, kind: str) -> str:
    if kind == "tokens" and readings.unlike:
        return f"{readings.unlike} texts are other tokens to this model than to the teacher, which leaves {n} {kind}"
    return f"{n} {kind}; states are compared on {MIN_ROWS} at least"


def _shapes(readings: Readings) -> list[dict[str, Any]]:
    """Of each layer looked at; none where the texts have no tokens but separators."""
    figures = readings.cloud.figures()
    return [{"layer": number, **each} for number, each in zip(readings.own, figures, strict=bool(figures))]


def _shape_metrics(shapes: list[dict[str, Any]], cloud: Cloud) -> list[Metric]:
    n = {name: cloud.kept if name == "intrinsic_dimension" else cloud.n for name, _ in SHAPES}
    return [Metric(f"{name}_last_layer", shapes[-1][name], unit, None, n[name]) for name, unit in SHAPES if shapes]
