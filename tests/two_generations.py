"""Model folders of every kind, and what they answer: run by both environments, so that each opens what the other wrote.

As a program: `python two_generations.py GIVEN MADE` writes its own folders into MADE, and what it answers to those in
GIVEN and in MADE into `answers.json` beside them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import transformers
from tiny_jobs import carry_out, job_data
from tiny_models import tiny_tokenizer, write_tiny
from tokenizers import normalizers

from assay.core.artifact import open_finished, open_source
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
    and a model with uneven heads as Assay saves it, in torch and ONNX."""
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
        predictor = open_predictor(open_finished(path) if finished else open_source(path, "text-classification"), 128)
        return {"ids": predictor.encoder.ids(TEXTS), "logits": predictor.logits(TEXTS).tolist()}
    except AssayError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    given, made = map(Path, sys.argv[1:])
    write_all(made)
    found = {"version": transformers.__version__, "given": answers(given), "made": answers(made)}
    made.with_name("answers.json").write_text(json.dumps(found))
