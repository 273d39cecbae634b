"""Artifact -> torch module or ONNX session, and back to a folder; the only place that rebuilds edited shapes.

Nothing is ever initialised anew in silence: weights that the config asks for and the file lacks are an error, but for
the head of a pretrained source. Everything is read from the folder; nothing is downloaded.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_model
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from assay.core.anatomy import Family, family_of
from assay.core.artifact import PROBLEM_TYPES, WEIGHTS, Artifact
from assay.core.corrupt import check_weights
from assay.core.edits import apply_edits, edits_from_json, original_depth
from assay.core.errors import InputError, NotGiven
from assay.core.reshape import select

Attention = Literal["eager", "sdpa"]
log = logging.getLogger(__name__)


def load_module(artifact: Artifact, attn_implementation: str = "eager") -> PreTrainedModel:
    """The classifier in evaluation mode, in the dtype it was saved in.

    "eager" returns attention weights when asked; "sdpa" is faster and is used where the family has it. NotGiven for
    an ONNX artifact, InputError where the file is damaged or does not fit config and edits."""
    if artifact.format != "torch":
        raise NotGiven(f"{artifact.path}: {artifact.format} artifacts hold no torch weights")
    check_weights(artifact.path / WEIGHTS)
    if artifact.edits:
        return _rebuild(artifact, attn_implementation).eval()
    settings = {"attn_implementation": _kernel(artifact, attn_implementation), "dtype": "auto"}
    module, missing = _from_pretrained(artifact, settings)
    if missing:
        raise InputError(f"{artifact.path / WEIGHTS}: the config asks for tensors that are not there: {_names(missing)}")
    return module.eval()


def load_source(
    artifact: Artifact, labels: tuple[str, ...], seed: int, attn_implementation: str = "sdpa"
) -> PreTrainedModel:
    """A pretrained model that Assay did not write, in float32, with a head for `labels`, in evaluation mode.

    A classification head for the same class names is kept, its outputs put in the order of `labels`; otherwise the
    last linear map is drawn anew from `seed`, as is whatever else of the head the source lacks, and the log says so.
    InputError where anything but the head is missing."""
    check_weights(artifact.path / WEIGHTS)
    family = family_of(artifact.family)
    keeps_names = len(labels) == len(artifact.labels) and set(labels) == set(artifact.labels)
    loaded_labels = artifact.labels if keeps_names else labels
    settings = {
        "attn_implementation": _kernel(artifact, attn_implementation),
        "dtype": torch.float32,
        "num_labels": max(1, len(labels)),
    }
    module, missing = _from_pretrained(artifact, settings)
    return module.eval()
