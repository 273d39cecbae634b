"""Model folders of every kind, and what they answer: run by both environments, so that each opens what the other wrote.

As a program: `python two_generations.py GIVEN MADE` writes its own folders into MADE, and what it answers to those in
GIVEN and in MADE into `answers.json` beside them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import transformers
from by_family import OF_IMAGES, classes_of
from tiny_images import paths_of, write_images
from tiny_jobs import carry_out, job_data
from tiny_models import tiny_tokenizer, write_tiny
from tokenizers import normalizers

from assay.core.artifact import open_finished, open_source, read_config
from assay.core.errors import AssayError
from assay.core.manifest import MANIFEST
from assay.core.model.predict import open_predictor

TEXTS = ["A great movie , moving and funny!", "dull", " the  film’s Café 🎬 is Unbelievably good", "\tnew\nline", ""]
CLASSES = {
    "bert": "BertTokenizer",
    "distilbert": "DistilBertTokenizer",
    "electra": "ElectraTokenizer",
    "mpnet": "MPNetTokenizer",
    "roberta": "RobertaTokenizer",
}
Answers = dict[str, Any]


def write_all(folder: Path) -> None:
    """Each family with a tokenizer of its own class and of the generic one, one with a normalizer that no class knows,
    and models with uneven heads as Assay saves them, in torch and ONNX; those of images with factors too."""
    for family, named in CLASSES.items():
        for kind in ("generic", "own"):
            write_tiny(folder / f"{family}-{kind}", family, layers=2)
        _of_class(named, family).save_pretrained(folder / f"{family}-own")
    write_tiny(folder / "bert-custom", "bert", layers=2)
    custom = _of_class("BertTokenizer", "bert")
    custom.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace("film", "movie"), normalizers.NFD()]
    )
    custom.save_pretrained(folder / "bert-custom")
    write_images(folder.with_name("images"), rows=5)
    for family in OF_IMAGES:
        write_tiny(folder / family, family, task="image-classification", layers=2)
        images = open_source(folder / family, "image-classification")
        chain = [("prune_heads", {"remove": {0: [0], 1: [1, 2]}}), ("factorise", {"energy": 0.6})]
        data = replace(job_data(), task=images.task)  # of which these steps read nothing
        made = carry_out(folder.with_name(f"{folder.name}-{family}"), images, chain, data)
        made.path.rename(folder / f"{family}-uneven")
    source = open_source(folder / "roberta-generic", "text-classification")
    steps = [("prune_heads", {"remove": {0: [0], 1: [1, 2]}}), ("export_onnx", {})]
    for number, name in enumerate(("roberta-uneven", "roberta-graph"), start=1):
        made = carry_out(folder.with_name(f"{folder.name}-steps"), source, steps[:number], job_data())
        made.path.rename(folder / name)


def _of_class(named: str, family: str) -> Any:
    """The tiny tokenizer as the class of its family; 4.57 has two of each, 5 the fast one only, under both names."""
    fast = getattr(transformers, f"{named}Fast", None) or getattr(transformers, named)
    generic = tiny_tokenizer(family)
    tokens = {name: generic.special_tokens_map[name] for name in generic.special_tokens_map}
    if family in ("mpnet", "roberta"):
        tokens |= {"bos_token": "<s>", "eos_token": "</s>"}
    return fast(tokenizer_object=generic.backend_tokenizer, model_max_length=generic.model_max_length, **tokens)


def answers(folder: Path) -> dict[str, Answers]:
    """Name -> token ids and logits of each model folder in `folder`, or the one line that refuses it."""
    return {path.name: _answers(path) for path in sorted(folder.iterdir()) if path.is_dir()}


def _answers(path: Path) -> Answers:
    try:
        finished = (path / MANIFEST).is_file()
        task = classes_of(read_config(path)["model_type"])
        predictor = open_predictor(open_finished(path) if finished else open_source(path, task), 128)
        rows = TEXTS if task == "text-classification" else paths_of(path.parents[1] / "images")
        return {"ids": predictor.encoder.ids(rows), "logits": predictor.logits(rows).tolist()}
    except AssayError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    given, made = map(Path, sys.argv[1:])
    write_all(made)
    found = {"version": transformers.__version__, "given": answers(given), "made": answers(made)}
    made.with_name("answers.json").write_text(json.dumps(found))
