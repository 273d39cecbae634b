"""How well images are still told apart once they are noisy, blurred, pale, bright, coarse or badly compressed, at the
kinds and strengths of ImageNet-C (Hendrycks and Dietterich 2019; `probe/corrupted_images.py`).

The paper sums up errors in relation to those of AlexNet; here accuracies stand as they are, beside the teacher's on the
same changed images.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.artifact import is_image
from assay.core.errors import NotGiven
from assay.core.metric import Metric
from assay.core.stats import bootstrap_interval, wilson_interval
from probe.against_teacher import change_metric, paired_change, with_teacher
from probe.corrupted_images import Kind, corrupted
from probe.probe import Findings, Probe, ProbeContext
from probe.sample import draw_rows

if TYPE_CHECKING:
    from assay.core.data.prepare import Split
    from assay.core.model.predict import Predictor

KINDS: list[Kind] = ["noise", "blur", "contrast", "brightness", "pixelate", "jpeg"]
Strength = Annotated[int, Field(ge=1, le=5)]
Right = dict[tuple[str, int], np.ndarray]  # by kind and strength, bool [images]


class CorruptionsProbe(Probe):
    """`samples` rows of the test split are changed in each of `kinds` at each of `strengths`, 1 (least) to 5."""

    version: ClassVar[int] = 2
    images: ClassVar[bool] = True

    samples: PositiveInt = 100
    kinds: list[Kind] = Field(KINDS, min_length=1)
    strengths: list[Strength] = Field([1, 3, 5], min_length=1)

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics: accuracy on the images as they are, on the changed ones, and by kind; for a variant the
        change to the teacher, image by image. NotGiven for texts, and where no test label is known."""
        if not is_image(ctx.data.task):
            raise NotGiven("corruptions changes images, and the rows of this job are texts")
        rows = self._rows(ctx)
        own, theirs = with_teacher(self, model, ctx, lambda of: self._right(of, rows, ctx.seed))
        metrics = _headline(own)
        if theirs is not None:
            change = paired_change(_by_image(own), _by_image(theirs), np.arange(len(rows)))
            metrics.append(change_metric("corrupted_change", change))
        accuracies = [
            {"kind": kind, "strength": strength, "accuracy": float(right.mean())}
            for (kind, strength), right in own.items()
            if kind
        ]
        return Findings(metrics, {"accuracies": accuracies, "n_rows": len(rows)})

    def tiny(self) -> CorruptionsProbe:
        return self.model_copy(update={"samples": 8, "strengths": [5]})

    def _rows(self, ctx: ProbeContext) -> Split:
        known = ctx.data.test.take(np.flatnonzero(ctx.data.test.labels >= 0))
        if not len(known):
            raise NotGiven(f"all {len(ctx.data.test)} test labels are hidden")
        return known.take(draw_rows(known.labels, self.samples, ctx.seed))

    def _right(self, model: Predictor, rows: Split, seed: int) -> Right:
        """Which images are told right, by kind and strength; as they are under ("", 0)."""
        found = {("", 0): model.logits(rows.texts).argmax(1) == rows.labels}
        for kind, strength in self._changes():
            with tempfile.TemporaryDirectory(prefix="assay-images-") as folder:
                paths = [_write(path, kind, strength, Path(folder), seed, row) for path, row in _numbered(rows)]
                found[kind, strength] = model.logits(paths).argmax(1) == rows.labels
        return found

    def _changes(self) -> Iterator[tuple[Kind, int]]:
        for kind in dict.fromkeys(self.kinds):
            yield from ((kind, strength) for strength in sorted(set(self.strengths)))


def _numbered(rows: Split) -> Iterator[tuple[str, int]]:
    return zip(rows.texts, rows.rows, strict=True)


def _write(path: str, kind: Kind, strength: int, folder: Path, seed: int, row: int) -> str:
    """The changed image as a file; noise depends on seed and row alone."""
    from assay.core.model.image_files import open_image

    out = folder / f"{row}.png"
    corrupted(open_image(path), kind, strength, np.random.default_rng((seed, row))).save(out)
    return str(out)


def _by_image(found: Right) -> np.ndarray:
    """float [images]: the share of its changed forms that is told right."""
    return np.mean([right for (kind, _), right in found.items() if kind], axis=0)


def _headline(found: Right) -> list[Metric]:
    clean = found["", 0]
    n, right = len(clean), int(clean.sum())
    kinds = dict.fromkeys(kind for kind, _ in found if kind)
    told = [Metric("clean_accuracy", right / n, "fraction", True, n, *wilson_interval(right, n))]
    told.append(_mean("corrupted_accuracy", _by_image(found)))
    of_kind = ({at: value for at, value in found.items() if at[0] == kind} for kind in kinds)
    return told + [_mean(f"{kind}_accuracy", _by_image(each)) for kind, each in zip(kinds, of_kind, strict=True)]


def _mean(name: str, values: np.ndarray) -> Metric:
    low, high = bootstrap_interval(partial(np.mean, axis=-1), values, vectorized=True)
    return Metric(name, float(values.mean()), "fraction", True, len(values), low, high)
