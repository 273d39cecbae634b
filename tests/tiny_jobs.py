"""A job in small: rows whose label is planted, and steps carried out on tiny models."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay.core.artifact import Artifact, open_finished
from assay.core.data.prepare import JobData, Split, fingerprint
from assay.core.manifest import Manifest, hash_folder, key_of
from assay.core.model.predict import open_predictor
from assay.core.plugins import STEPS
from compress.step import Context, Step

NEUTRAL = ("the", "a", "film", "movie", "plot", "story", "was", "is", "with", "and", "man", "woman", "slow", "quick")
PLANTED = ("awful", "great")  # the word that tells the class
SEED = 13
BLANK = ["", "   ", "\t\n", "\u200b", "🎬"]
Steps = Sequence[tuple[str, dict[str, Any]]]


def planted_rows(n: int, seed: int = 0, shuffled: bool = False) -> Split:
    """`n` rows of 4 to 12 neutral words and one planted word; `shuffled` labels have nothing to do with the texts."""
    drawn = random.Random(seed)
    labels = np.array([row % 2 for row in range(n)], dtype=np.int64)
    texts = [_planted(drawn, PLANTED[label]) for label in labels]
    if shuffled:
        drawn.shuffle(texts)
    return Split(texts, labels, list(range(1, n + 1)))


def _planted(drawn: random.Random, word: str) -> str:
    words = drawn.choices(NEUTRAL, k=drawn.randrange(4, 13))
    words.insert(drawn.randrange(len(words) + 1), word)
    return " ".join(words)


def with_labels(split: Split, labels: np.ndarray) -> Split:
    """The same texts with other labels."""
    return Split(split.texts, labels, split.rows)


def job_data(
    train: Split | None = None,
    test: Split | None = None,
    task: str = "text-classification",
    labels: tuple[str, ...] = ("neg", "pos"),
) -> JobData:
    """Planted rows where none are given; validation rows are the test rows."""
    train, test = train or planted_rows(48), test or planted_rows(12, seed=1)
    content = fingerprint({"train": train, "test": test}, labels, 32, task)
    return JobData(train, test, test, labels, task, content, max_length=32)


def context(
    data: JobData,
    scratch: Path,
    teacher: Artifact | None = None,
    lineage: tuple[Artifact, ...] = (),
    log: Callable[[str], None] = lambda line: None,
) -> Context:
    """The context in which a step meets `data`; the teacher reads the training rows with its own tokenizer."""

    def teacher_logits() -> np.ndarray:
        assert teacher is not None
        return open_predictor(teacher, data.max_length).logits(data.train.texts)

    return Context(SEED, data, scratch, teacher, teacher_logits, lineage, log=log)


def stopping_at(step: int) -> Callable[[int, int], None]:
    """A progress callback that interrupts the training when that step is done."""

    def progress(done: int, total: int) -> None:
        if done == step:
            raise KeyboardInterrupt

    return progress


def step_of(name: str, **settings: Any) -> Step:
    """The step of that name in `compress/steps/`."""
    return STEPS.get(name)(**settings)


def carry_out(
    folder: Path, source: Artifact, steps: Steps, data: JobData | None = None, teacher: Artifact | None = None
) -> Artifact:
    """The finished result of `steps`, one after the other, on `source`; each leaves a folder of its own."""
    lineage = [source]
    for name, settings in steps:
        key = key_of(lineage[-1].key, name, settings)
        lineage.append(finish(folder, key, step_of(name, **settings), lineage, data or job_data(), teacher))
    return lineage[-1]


def finish(
    folder: Path, key: str, step: Step, lineage: Sequence[Artifact], data: JobData, teacher: Artifact | None = None
) -> Artifact:
    """Apply one step to the last artifact of `lineage` and write its manifest."""
    source, out, scratch = lineage[-1], folder / key[:12], folder / "scratch" / key[:12]
    for path in (out, scratch):
        path.mkdir(parents=True, exist_ok=True)
    facts = step.apply(source, out, context(data, scratch, teacher, tuple(lineage)))
    manifest = Manifest(
        key=key,
        step=type(step).__name__,
        settings=step.model_dump(mode="json"),
        parent=source.key,
        format=step.gives,
        task=data.task,
        family=source.family,
        seed=SEED,
        edits=facts.pop("edits", source.edits),
        facts=facts,
        files=hash_folder(out),
    )
    manifest.write(out)
    return open_finished(out)


def accuracy(artifact: Artifact, rows: Split) -> float:
    """Share of rows that the model gets right."""
    logits = open_predictor(artifact, 32).logits(rows.texts)
    return float((logits.argmax(axis=1) == rows.labels).mean())
