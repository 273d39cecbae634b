"""Facts about the rows of a job that a reader of the report should know."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.artifact import is_image
from assay.core.data.images import common_sizes, content_of
from assay.core.data.split import conflicts

if TYPE_CHECKING:
    from assay.core.data.prepare import Split


def is_blank(text: str) -> bool:
    """True when nothing would be seen on paper: no characters, spaces, controls, or zero-width ones such as U+200B."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def describe(splits: Mapping[str, Split], names: tuple[str, ...], task: str) -> dict[str, Any]:
    """JSON-able facts over all splits; `names` are the class names (none for regression).

    rows, class_counts, hidden: by split. classes_without_train_rows: a model cannot learn these.
    train_only_classes: too rare to be split, or not in the held-out files; no metric speaks of them.
    blank_texts, repeated_texts, conflicting_texts: counts; text_length_characters: distribution. Of images there are
    repeated_images, conflicting_images and image_sizes, the most frequent ones, in their place."""
    texts = list(chain.from_iterable(split.texts for split in splits.values()))
    counts = {part: class_counts(split.labels, names) for part, split in splits.items()}
    train, test = counts["train"], counts["test"]
    hidden = {part: _hidden(split.labels) if names else 0 for part, split in splits.items()}
    return {
        "rows": {part: len(split) for part, split in splits.items()},
        "class_counts": counts,
        "hidden": hidden,
        "classes_without_train_rows": [name for name in names if not train[name]],
        "train_only_classes": [name for name in names if train[name] and not test[name] and not hidden["test"]],
        **_contents(texts, np.concatenate([split.labels for split in splits.values()]), task),
    }


def _contents(texts: list[str], labels: np.ndarray, task: str) -> dict[str, Any]:
    repeated, conflicting = conflicts([content_of(task)(text) for text in texts], labels)
    if is_image(task):
        sizes = common_sizes(texts)
        return {"repeated_images": repeated, "conflicting_images": conflicting, "image_sizes": sizes}
    return {
        "blank_texts": sum(map(is_blank, texts)),
        "repeated_texts": repeated,
        "conflicting_texts": conflicting,
        "text_length_characters": _lengths(texts),
    }


def class_counts(labels: np.ndarray, names: tuple[str, ...]) -> dict[str, int]:
    """Rows a class, hidden ones left out; for multi-label the rows that carry the label."""
    per_class = (labels == 1).sum(axis=0) if labels.ndim == 2 else [(labels == i).sum() for i in range(len(names))]
    return {name: int(count) for name, count in zip(names, per_class, strict=True)}


def _hidden(labels: np.ndarray) -> int:
    return int((labels.reshape(len(labels), -1) == -1).all(axis=1).sum())


def _lengths(texts: list[str]) -> dict[str, int]:
    low, median, high, most = np.percentile([len(text) for text in texts], [5, 50, 95, 100])
    return {"p5": int(low), "p50": int(median), "p95": int(high), "max": int(most)}
