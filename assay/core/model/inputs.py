"""What the graph of each family and task takes and gives: names, order and dynamic axes, as data.

The same names, order and axes as optimum's exporter uses, so that a graph serves the same callers whoever wrote it. To
add a family, add a line to `INPUTS`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.artifact import Task
from assay.core.model.anatomy import family_of
from assay.core.model.images import PIXELS

DUMMY_SHAPE = (2, 16)  # [batch, tokens] of the rows that an exporter runs the model on
Axes = dict[int, str]

_TOKENS: Axes = {0: "batch_size", 1: "sequence_length"}
_ROWS: Axes = {0: "batch_size"}
_TEXT = ("input_ids", "attention_mask")
_SEGMENTED = (*_TEXT, "token_type_ids")
_IMAGE = (PIXELS,)

INPUTS: dict[str, tuple[str, ...]] = {
    "bert": _SEGMENTED,
    "electra": _SEGMENTED,
    "roberta": _TEXT,
    "xlm-roberta": _TEXT,
    "distilbert": _TEXT,
    "mpnet": _TEXT,
    "deberta-v2": _TEXT,
    "albert": _SEGMENTED,
    "gpt2": _TEXT,
    "llama": _TEXT,
    "bart": _TEXT,
    "t5": _TEXT,
    "vit": _IMAGE,
    "deit": _IMAGE,
    "dinov2": _IMAGE,
}
OUTPUTS: dict[Task, dict[str, Axes]] = {
    "text-classification": {"logits": _ROWS},
    "multi-label-classification": {"logits": _ROWS},
    "text-regression": {"logits": _ROWS},
    "image-classification": {"logits": _ROWS},
    "fill-mask": {"logits": _TOKENS},
    "text-generation": {"logits": _TOKENS},
}


STATES = "hidden_states."
NO_STATES = "optimum writes classifiers without hidden states"
ANY_SIZE = "optimum leaves height and width open, and positions are then computed anew for each image"


@dataclass(frozen=True)
class GraphSpec:
    """Name -> dynamic axes, in the order of the graph: int64 [batch, tokens] in, float32 [batch, labels] out, of a
    language model [batch, tokens, vocabulary], and after it [batch, tokens, width] for each hidden state that the graph
    gives. `image`: [channels, height, width] of what goes in instead, float32 [batch, channels, height, width]; all
    images of a graph are of that size, so that positions need not be computed for each."""

    inputs: dict[str, Axes]
    outputs: dict[str, Axes]
    image: tuple[int, int, int] | None = None


def graph_spec(
    family: str, task: Task, states: Sequence[str] = (), image: tuple[int, int, int] | None = None
) -> GraphSpec:
    """The inputs and outputs of a family's graph for a task, with hidden states of these names."""
    axes = _TOKENS if image is None else _ROWS
    return GraphSpec(dict.fromkeys(INPUTS[family], axes), OUTPUTS[task] | dict.fromkeys(states, axes), image)


def state_names(layers: Sequence[int]) -> list[str]:
    """Outputs for the hidden states of a model with these original layers: `hidden_states.0` is the embedding output,
    `hidden_states.N` what leaves layer N - 1."""
    return [f"{STATES}{number}" for number in (0, *(layer + 1 for layer in layers))]


def longest_input(config: Mapping[str, Any]) -> int:
    """Number of tokens the model has positions for; no bound where it counts distances only."""
    family = family_of(config["model_type"])
    return sys.maxsize if family.positions_key is None else config[family.positions_key] - family.first_position
