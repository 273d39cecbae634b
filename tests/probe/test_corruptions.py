"""Corrupted images: what each kind does to known pixels, and what of a model's accuracy is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="Pillow is not installed: pip install pillow")

from fake_models import context
from PIL import Image
from tiny_images import image_rows, write_images
from tiny_jobs import job_data

from assay.core.errors import NotGiven
from probe.corrupted_images import CHANGES, CONTRAST, NOISE, Kind, corrupted
from probe.probe import Findings
from probe.probes.corruptions import CorruptionsProbe


def change(image: Image.Image, kind: Kind, strength: int) -> np.ndarray:
    return np.asarray(corrupted(image, kind, strength, np.random.default_rng(0)), np.float64)


def noisy(side: int = 64) -> Image.Image:
    return Image.fromarray(np.random.default_rng(1).integers(60, 190, (side, side, 3)).astype(np.uint8))


@pytest.mark.parametrize("kind", CHANGES)
def test_stronger_is_further_off_and_the_size_stays(kind: Kind) -> None:
    image = noisy()
    off = [np.abs(change(image, kind, strength) - np.asarray(image, np.float64)).mean() for strength in (1, 3, 5)]
    assert 0 < off[0] < off[1] < off[2]
    assert change(image.resize((9, 5)), kind, 5).shape == (5, 9, 3)


def test_what_has_known_values() -> None:
    gray = Image.new("RGB", (64, 64), (128, 128, 128))
    assert change(gray, "noise", 2).std() == pytest.approx(255 * NOISE[1], rel=0.05)
    for kind in ("blur", "contrast", "pixelate"):
        assert (change(gray, kind, 5) == 128).all()  # nothing in it to lose
    halves = Image.fromarray(np.repeat([[[0] * 3, [200] * 3]], 2, axis=0).astype(np.uint8))
    assert change(halves, "contrast", 1)[0, :, 0] == pytest.approx([100 - 100 * CONTRAST[0], 100 + 100 * CONTRAST[0]])
    assert change(gray, "brightness", 1).mean() == pytest.approx(128 + 25.5, abs=1)
    assert np.ptp(change(halves, "pixelate", 5), axis=1).max() == 0


class Bright:
    """Calls an image light where its mean is above `least`. Remembers answers by path, as predictors of a run do."""

    def __init__(self, key: str, least: float) -> None:
        self.seen: dict[str, float] = {}
        self.least, self.artifact = least, SimpleNamespace(key=key, path=Path(key))

    def logits(self, paths: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        for path in paths:
            self.seen.setdefault(path, np.asarray(Image.open(path), np.float64).mean())
        means = np.array([self.seen[path] for path in paths])
        return np.stack([self.least - means, means - self.least], axis=1)


def found(model: Bright, teacher: Bright, folder: Path, **settings: object) -> Findings:
    rows = image_rows(write_images(folder, rows=20, size=(24, 24)))
    told = context(rows, teacher=teacher, task="image-classification", labels=("dark", "light"))
    return CorruptionsProbe.model_validate(settings).run(model, told)


def test_a_model_that_reads_brightness_is_lost_on_brightness_alone(tmp_path: Path) -> None:
    settings = {"kinds": ["blur", "brightness"], "strengths": [5]}
    model, sturdy = Bright("own", 130), Bright("teacher", 190)
    findings, full = found(model, sturdy, tmp_path, **settings), found(sturdy, sturdy, tmp_path, **settings)
    told = by_name(findings)
    assert told["clean_accuracy"] == told["blur_accuracy"] == 1.0
    assert told["brightness_accuracy"] == 0.5  # all images are bright then
    assert told["corrupted_accuracy"] == 0.75
    assert findings.details["accuracies"] == [
        {"kind": "blur", "strength": 5, "accuracy": 1.0},
        {"kind": "brightness", "strength": 5, "accuracy": 0.5},
    ]
    assert told["corrupted_change"] == pytest.approx(0.75 - by_name(full)["corrupted_accuracy"])
    assert "corrupted_change" not in by_name(full)


def by_name(findings: Findings) -> dict[str, Any]:
    return {metric.name: metric.value for metric in findings.metrics}


def test_texts_and_hidden_labels_are_told(tmp_path: Path) -> None:
    model = Bright("own", 130)
    with pytest.raises(NotGiven, match="the rows of this job are texts"):
        CorruptionsProbe().run(model, context(job_data().test))
    rows = image_rows(write_images(tmp_path, rows=4))
    hidden = replace(rows, labels=np.full(4, -1))
    with pytest.raises(NotGiven, match="all 4 test labels are hidden"):
        CorruptionsProbe().run(model, context(hidden, task="image-classification"))
