"""Labelled sentences in the format of SentEval's probing tasks (Conneau and Kiela 2018,
https://github.com/facebookresearch/SentEval/tree/main/data/probing): lines of split, label and text, parted by tabs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay.core.errors import InputError
from probe.numbered_lines import malformed, numbered_lines

SPLITS = {"tr": "train", "va": "validation", "te": "test"}


@dataclass(frozen=True)
class LabelledTexts:
    """The rows of one split; `labels` int64 [n] are positions in the sorted names of all labels of the file."""

    texts: list[str]
    labels: np.ndarray


def read_labelled_texts(path: Path) -> dict[str, LabelledTexts]:
    """train, validation and test rows of a file. InputError with file and line for a malformed line, and where the file
    has no rows to train or to test on."""
    rows = [_row(path, number, line) for number, line in numbered_lines(path) if line.strip()]
    names = sorted({label for _, label, _ in rows})
    places = {name: place for place, name in enumerate(names)}
    parts = {}
    for short, split in SPLITS.items():
        own = [(text, places[label]) for given, label, text in rows if given == short]
        parts[split] = LabelledTexts([text for text, _ in own], np.array([label for _, label in own], dtype=np.int64))
    if absent := [short for short in ("tr", "te") if not parts[SPLITS[short]].texts]:
        raise InputError(f"{path}: no row of split {' and '.join(absent)}; write split, label and text, tab between")
    return parts


def _row(path: Path, number: int, line: str) -> tuple[str, str, str]:
    cells = line.split("\t")
    if len(cells) != 3:
        raise malformed(path, number, f"{len(cells)} columns parted by tabs, there are 3: split, label, text")
    split, label, text = cells
    if split not in SPLITS:
        raise malformed(path, number, f"split is {split!r}; it is one of {', '.join(SPLITS)}")
    if not label.strip() or not text.strip():
        raise malformed(path, number, "the label or the text is empty")
    return split, label, text
