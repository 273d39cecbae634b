"""Rows of text, or of images, with labels: read, mapped by name, split by seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.core.artifact import is_image, is_language
from assay.core.data.images import content_of, read_images
from assay.core.data.labels import encode, without_labels
from assay.core.data.notes import describe
from assay.core.data.read import Rows, read_rows
from assay.core.data.settings import DataSettings
from assay.core.data.split import sample, split_rows
from assay.core.errors import InputError
from assay.core.manifest import key_of

NAMES = ("train", "validation", "test")
Content = Callable[[str], str]


@dataclass(frozen=True)
class Split:
    """`texts` are paths where the task is one of images.

    `labels` is int64 [n] class indices (-1 = hidden; 0 for a language model, whose answers are the texts' tokens),
    float64 [n] for regression, or int64 [n, labels] of 0/1.

    `rows` are the row numbers in the source file (first data row = 1), so that a message can name them."""

    texts: list[str]
    labels: np.ndarray
    rows: list[int]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: Sequence[int] | np.ndarray) -> Split:
        """The rows at these positions, in this order."""
        labels = self.labels[np.asarray(index, np.int64)]
        return Split([self.texts[i] for i in index], labels, [self.rows[i] for i in index])


@dataclass(frozen=True)
class JobData:
    """`labels` are class names in the order of the indices (empty for regression and language models).

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


def prepare(settings: DataSettings, task: str, seed: int) -> JobData:
    """Read, map labels by name and split, the same for the same seed.

    Rows of a split come in seeded random order, so that its first rows are a fair sample. No text is in two splits:
    equal texts of one file stay together, and with files of their own for validation or test, rows of the others that
    repeat a test text, or a validation text in train, are left out and counted.
    Images are the same where their files are. Raises InputError naming the file and the row."""
    if is_language(task):
        settings = without_labels(settings, task)
    read, content = read_images if is_image(task) else read_rows, content_of(task)
    addresses = {"train": settings.source, "validation": settings.validation_source, "test": settings.test_source}
    files = {name: read(address, settings) for name, address in addresses.items() if address}
    names, arrays = encode(list(files.values()), settings, task, hidden_in=files.get("test"))
    sampled = {
        name: Split(rows.texts, array, rows.numbers).take(sample(array, settings.limit or len(array), seed))
        for (name, rows), array in zip(files.items(), arrays, strict=True)
    }
    kept = _without_repeats(sampled, content)
    splits = _split(kept, settings, seed, content)
    notes = {
        "files": {name: _file_facts(rows, len(sampled[name]), len(kept[name])) for name, rows in files.items()},
        **describe(splits, names, task),
    }
    known_by = fingerprint(splits, names, settings.max_length, task)
    return JobData(**splits, labels=names, task=task, fingerprint=known_by, max_length=settings.max_length, notes=notes)


def _file_facts(rows: Rows, sampled: int, kept: int) -> dict[str, Any]:
    """How the rows of a file came down to those of the job."""
    return {
        "source": rows.name,
        "rows": rows.seen,
        "left_out_by_where": rows.seen - rows.skipped - len(rows),
        "empty_skipped": rows.skipped,
        "sampled": sampled,
        "repeats_across_files": sampled - kept,
        **({"passed_over": dict(rows.passed_over)} if rows.passed_over else {}),
    }


def fingerprint(splits: dict[str, Split], labels: tuple[str, ...], max_length: int, task: str) -> str:
    """Key of texts or images, labels, their order and split, class names and length; row numbers and file names do not
    count."""
    digests = {name: _digest(split, content_of(task)) for name, split in splits.items()}
    return key_of("data", digests, labels, max_length)


def _digest(split: Split, content: Content) -> str:
    digest = hashlib.sha256(f"{split.labels.dtype}{split.labels.shape}".encode())
    digest.update(split.labels.tobytes())
    for text in split.texts:
        data = content(text).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _without_repeats(files: dict[str, Split], content: Content) -> dict[str, Split]:
    """Each file without the texts of those that are held out further: test over validation over train."""
    taken: set[str] = set()
    kept: dict[str, Split] = {}
    for name in ("test", "validation", "train"):
        if name in files:
            contents = [content(text) for text in files[name].texts]
            kept[name] = files[name].take([i for i, each in enumerate(contents) if each not in taken])
            taken.update(contents)
    if not all(map(len, kept.values())):
        raise InputError("data: every row of a file repeats a text of data.test_source or data.validation_source")
    return kept


def _split(files: dict[str, Split], settings: DataSettings, seed: int, content: Content) -> dict[str, Split]:
    """Three splits out of one to three files; what has a file of its own is not split off."""
    train = files["train"]
    sizes = {name: 0 if name in files else getattr(settings.split, name) for name in ("test", "validation")}
    contents = [content(text) for text in train.texts]
    rows = dict(zip(NAMES, split_rows(contents, train.labels, **sizes, seed=seed), strict=True))
    drawn = {name: train.take(rows[name]) for name in NAMES if name == "train" or name not in files}
    order = np.random.default_rng(seed)
    own = {name: split.take(order.permutation(len(split))) for name, split in files.items() if name != "train"}
    return {name: (drawn | own)[name] for name in NAMES}
