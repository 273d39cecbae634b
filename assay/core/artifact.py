"""A model on disk: every variant is a folder with weights, config, tokenizer and, when Assay wrote it, a manifest.

The folder moves, zips and loads anywhere. Class names and problem type live in its `config.json` (`id2label`,
`problem_type`), where every other tool looks for them too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args

from assay.core.errors import InputError
from assay.core.manifest import Manifest, hash_file, key_of

Format = Literal["torch", "onnx"]
Task = Literal[
    "text-classification", "text-regression", "multi-label-classification", "image-classification",
    "fill-mask", "text-generation",
]  # fmt: skip
LanguageTask = Literal["fill-mask", "text-generation"]
ONE_CLASS = ("text-classification", "image-classification")  # tasks where each row has one class

PROBLEM_TYPES: dict[Task, str] = {
    "text-classification": "single_label_classification",
    "text-regression": "regression",
    "multi-label-classification": "multi_label_classification",
    "image-classification": "single_label_classification",
}
WEIGHTS = "model.safetensors"
GRAPH = "model.onnx"
SOURCE_FILES = (
    "config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt",
    "sentencepiece.bpe.model", "spiece.model", "preprocessor_config.json",
)  # fmt: skip


def is_language(task: str) -> TypeGuard[LanguageTask]:
    """Whether it is the task of a language model, which names a token at each place that is asked."""
    return task in get_args(LanguageTask)


def is_image(task: str) -> bool:
    """Whether its rows are images."""
    return task == "image-classification"


@dataclass(frozen=True)
class Artifact:
    """`key` identifies the content, `family` is the model type of transformers ("bert"), `edits` as in the manifest."""

    path: Path
    key: str
    format: Format
    task: Task
    family: str
    edits: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def config(self) -> dict[str, Any]:
        """`config.json` as plain data."""
        return read_config(self.path)

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names in the order of the logits."""
        names = self.config.get("id2label") or {}
        return tuple(names[index] for index in sorted(names, key=int))

    @property
    def size_bytes(self) -> int:
        """Bytes of all that is shipped: the whole folder but the manifest."""
        files = (path for path in self.path.rglob("*") if path.is_file() and path.name != "manifest.json")
        return sum(path.stat().st_size for path in files)


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` of a model folder; InputError where it is missing or not JSON."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise InputError(
            f"{folder}: not a folder; a model is a folder with config.json, weights and what reads its rows"
        )
    if not path.is_file():
        raise InputError(f"{folder}: no config.json; is it a model folder?")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise InputError(f"{path}: no model_type; is it the config of a transformer?")
    _check_names(path, config.get("id2label"))
    return config


def _check_names(path: Path, names: Any) -> None:
    """`id2label` maps positions to class names where it is there at all."""
    if names is None:
        return
    if not isinstance(names, dict) or not all(str(key).isdigit() and isinstance(names[key], str) for key in names):
        raise InputError(f"{path}: id2label must map positions to class names, e.g. {{'0': 'negative'}}; got {names!r}")


def open_source(folder: Path, task: Task) -> Artifact:
    """A pretrained model that Assay did not write. Its key is the hash of its config, weights and tokenizer files."""
    config = read_config(folder)
    if not (folder / WEIGHTS).is_file():
        found = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise InputError(f"{folder}: no {WEIGHTS} (safetensors only); found {found}")
    hashes = {name: hash_file(folder / name) for name in SOURCE_FILES if (folder / name).is_file()}
    return Artifact(folder, key_of("source", hashes), "torch", task, config["model_type"])


def open_finished(folder: Path) -> Artifact:
    """A folder that a step finished."""
    manifest = Manifest.read(folder)
    if manifest is None:
        raise InputError(f"{folder}: no manifest.json; the step that writes it has not finished")
    return Artifact(folder, manifest.key, manifest.format, manifest.task, manifest.family, manifest.edits)  # type: ignore[arg-type]
