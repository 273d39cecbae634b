"""Images whose class is their brightness, as files; and a quick job on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from small_jobs import MEASURE, TEACHER

from assay.core.data.prepare import Split

CLASSES = {"dark": 0, "light": 140}  # the least that a pixel of the class can be


def write_images(folder: Path, rows: int = 60, size: tuple[int, int] = (40, 50), seed: int = 0) -> Path:
    """`folder/CLASS/NUMBER.png` of (height, width) noise, the classes in turn; no two are alike."""
    from PIL import Image

    draw = np.random.default_rng(seed)
    for number in range(rows):
        name = list(CLASSES)[number % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 110, (*size, 3)) + CLASSES[name]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number:03}.png")
    return folder


def paths_of(folder: Path) -> list[str]:
    """All images of a folder in the order of their names."""
    return sorted(map(str, folder.rglob("*.png")))


def image_rows(folder: Path) -> Split:
    """The images of a folder with their classes."""
    paths = paths_of(folder)
    labels = np.array([list(CLASSES).index(Path(path).parent.name) for path in paths])
    return Split(paths, labels, list(range(1, len(paths) + 1)))


def write_image_job(path: Path, model: Path, **sections: Any) -> Path:
    """A config (JSON is YAML as well) with images of its own beside it."""
    images = path.with_name("images")
    if not images.exists():
        write_images(images)
    job = {
        "seed": 3,
        "task": "image-classification",
        "model": str(model),
        "data": {"source": str(images), "split": {"test": 16, "validation": 12}},
        "teacher": TEACHER,
        "variants": {"onnx": ["export_onnx"]},
        "measure": MEASURE,
    }
    path.write_text(json.dumps(job | sections, indent=2))
    return path
