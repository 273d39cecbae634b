"""Rows of text with labels: read, mapped by name, split by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Split:
    """`labels` is int64 [n] class indices (-1 = hidden), float64 [n] for regression, or int64 [n, labels] of 0/1.

    `rows` are the row numbers in the source file (first data row = 1), so that a message can name them."""

    texts: list[str]
    labels: np.ndarray
    rows: list[int]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: Sequence[int] | np.ndarray) -> Split:
        """The rows at these positions, in this order."""
        return Split([self.texts[i] for i in index], self.labels[np.asarray(index)], [self.rows[i] for i in index])


@dataclass(frozen=True)
class JobData:
    """`labels` are class names in the order of the indices (empty for regression).

    `fingerprint` changes when any text, label or the split changes. `notes` are JSON-able facts for the report:
    counts per class, duplicates dropped, empty texts."""

    train: Split
    validation: Split
    test: Split
    labels: tuple[str, ...]
    task: str
    fingerprint: str
    max_length: int = 128
    notes: dict[str, Any] = field(default_factory=dict)
