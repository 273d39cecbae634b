"""Where layers, projections, feed-forward and head sit in each model family: data only.

Paths are those of the family's sequence classifier. `base`, `layers`, `word_embeddings`, `classifier` and `head` start
at the model (`model.get_submodule(family.layers)` is the list of layers); the others start at a layer. To add a
family, add a line to `FAMILIES`; the tests of edits and loading then ask for a tiny model of it in
`tests/tiny_models.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import InputError


@dataclass(frozen=True)
class Family:
    """One model type of transformers.

    q, k, v:          linear maps [heads * head_dim, width]; o: the attention output, [width, heads * head_dim]
    ffn_in, ffn_out:  linear maps [neurons, width] and [width, neurons]
    attention:        the module whose attributes `head_count` and `head_width` follow the number of heads
    classifier:       the last linear map, one output a class; `head`: all that a pretrained encoder may lack
    first_position:   position number of the first token (the RoBERTa kind counts on from the padding index)
    head_bias_module: module in a layer that is handed one `position_bias` [batch, heads, tokens, tokens] for all layers
    kernels:          attention implementations of the oldest transformers we support
    ..._key:          names in `config.json`
    """

    base: str
    layers: str
    word_embeddings: str
    classifier: str
    head: tuple[str, ...]
    q: str = "attention.self.query"
    k: str = "attention.self.key"
    v: str = "attention.self.value"
    o: str = "attention.output.dense"
    ffn_in: str = "intermediate.dense"
    ffn_out: str = "output.dense"
    attention: str = "attention.self"
    head_count: str = "num_attention_heads"
    head_width: str = "all_head_size"
    depth_key: str = "num_hidden_layers"
    heads_key: str = "num_attention_heads"
    width_key: str = "hidden_size"
    neurons_key: str = "intermediate_size"
    first_position: int = 0
    head_bias_module: str | None = None
    kernels: tuple[str, ...] = ("eager", "sdpa")


_ROBERTA = Family(
    base="roberta",
    layers="roberta.encoder.layer",
    word_embeddings="roberta.embeddings.word_embeddings",
    classifier="classifier.out_proj",
    head=("classifier",),
    first_position=2,
)

FAMILIES: dict[str, Family] = {
    "bert": Family(
        base="bert",
        layers="bert.encoder.layer",
        word_embeddings="bert.embeddings.word_embeddings",
        classifier="classifier",
        head=("bert.pooler", "classifier"),
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "electra": Family(
        base="electra",
        layers="electra.encoder.layer",
        word_embeddings="electra.embeddings.word_embeddings",
        classifier="classifier.out_proj",
        head=("classifier",),
        kernels=("eager",),
    ),
    "distilbert": Family(
        base="distilbert",
        layers="distilbert.transformer.layer",
        word_embeddings="distilbert.embeddings.word_embeddings",
        classifier="classifier",
        head=("pre_classifier", "classifier"),
        q="attention.q_lin",
        k="attention.k_lin",
        v="attention.v_lin",
        o="attention.out_lin",
        ffn_in="ffn.lin1",
        ffn_out="ffn.lin2",
        attention="attention",
        head_count="n_heads",
        head_width="dim",
        depth_key="n_layers",
        heads_key="n_heads",
        width_key="dim",
        neurons_key="hidden_dim",
    ),
    "mpnet": Family(
        base="mpnet",
        layers="mpnet.encoder.layer",
        word_embeddings="mpnet.embeddings.word_embeddings",
        classifier="classifier.out_proj",
        head=("classifier",),
        q="attention.attn.q",
        k="attention.attn.k",
        v="attention.attn.v",
        o="attention.attn.o",
        attention="attention.attn",
        first_position=2,
        head_bias_module="attention",
        kernels=("eager",),
    ),
}


def family_of(model_type: str, stated_in: Path | None = None) -> Family:
    """The family of `model_type`; InputError names the file it is `stated_in`, and what to add where it is unknown."""
    if model_type not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise InputError(
            f"{f'{stated_in}: ' if stated_in else ''}model type {model_type!r} has no anatomy here; known: {known}. "
            f"To use it, add a Family for {model_type!r} to FAMILIES in assay/core/model/anatomy.py"
        )
    return FAMILIES[model_type]
