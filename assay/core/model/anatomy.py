"""Where layers, projections, feed-forward and head sit in each model family: data only.

Paths are those of the family's sequence classifier. Those of a `Family` and of a stack's `layers` start at the model,
those of an `Attention` and of the feed-forward maps start at a layer. To add a family, add a line to `FAMILIES` and one
to `INPUTS` in `inputs.py`; the tests of edits and loading then ask for a tiny model of it in `tests/tiny_models.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from assay.core.artifact import LanguageTask
from assay.core.errors import InputError
from assay.core.model.generations import generation


@dataclass(frozen=True)
class Attention:
    """One attention of a layer. A path that a layer lacks is passed over, since some maps are there by configuration.

    q:      linear maps [heads * head_dim, width]: the queries, and whatever else has channels a head
    kv:     linear maps [key/value heads * head_dim, width]
    qkv:    one map for all three, [3 * heads * head_dim, width], in the place of `q` and `kv`
    o:      the output, [width, heads * head_dim]
    module: the module whose attributes `count` (heads) and `channels` (heads * head_dim) follow, where it has them
    """

    module: str = "attention.self"
    q: tuple[str, ...] = ("attention.self.query",)
    kv: tuple[str, ...] = ("attention.self.key", "attention.self.value")
    qkv: str | None = None
    o: str = "attention.output.dense"
    count: str | None = "num_attention_heads"
    channels: str | None = "all_head_size"


@dataclass(frozen=True)
class Stack:
    """Layers of one kind. `ffn_in`: linear maps [neurons, width], several where one gates the other; `ffn_out`:
    [width, neurons]; `..._key`: names in `config.json`."""

    layers: str
    attention: Attention = field(default_factory=Attention)
    cross: Attention | None = None
    ffn_in: tuple[str, ...] = ("intermediate.dense",)
    ffn_out: str = "output.dense"
    depth_key: str = "num_hidden_layers"
    heads_key: str = "num_attention_heads"
    neurons_key: str = "intermediate_size"


@dataclass(frozen=True)
class Residual:
    """Where the states between layers, the residual stream, are written, read and normalised beside the linear maps of
    the layers. A path that a model lacks is passed over, since heads differ by task.

    tables:      embeddings [.., width], the word embedding among them
    layer_norms: norms over the width in a layer, that of the attention and that of the feed-forward, from the layer
    norms:       those outside the layers, whose outputs are states too
    readers:     linear maps [.., width] of the heads
    last_norm:   its output is multiplied by the word embedding where a language model names tokens by it
    entry:       the map from embeddings of another width to the states'; where it is there, tables, norms and the last
                 norm are of that other width
    norm_first:  a layer's norms stand before its maps, which alone read what they give
    """

    tables: tuple[str, ...]
    layer_norms: tuple[str, str]
    norms: tuple[str, ...]
    readers: tuple[str, ...]
    last_norm: str | None = None
    entry: str | None = None
    norm_first: bool = False


@dataclass(frozen=True)
class Family:
    """One model type of transformers. Layers are numbered through all stacks: the encoder's, then the decoder's.

    word_embeddings: the table of tokens; None for images
    classifier:     the last linear map, one output a class; `head`: all that a pretrained encoder may lack
    shares_layers:  one layer's weights are passed through again and again; the list at `layers` holds its owner
    causal:         a token sees those before it only, so the last one stands for the text
    first_position: position number of the first token (the RoBERTa kind counts on from the padding index)
    position_bias:  "handed on": each layer is given one `position_bias` [batch, heads, tokens, tokens] for all layers,
                    at `bias_module`; "first layer": the first computes it from weights of its own and hands it on
    kernels:        attention implementations of the oldest transformers we support
    residual:       where its states are written and read; None where that is not told here
    class_tokens:   of a model of images, how many tokens of its own stand before those of the patches; 0 for texts
    any_size:       of a model of images, whether it fits its positions to images of another size than it was trained on
    untold:         settings of `config.json` that, where true, give the layers other maps than those told here
    architecture:   the class of transformers, where there are several for the task. DeiT's has one classifier: the
                    second one of its published models, which learned from another model's labels, is not kept
    ..._key:        names in `config.json`
    """

    base: str
    stacks: tuple[Stack, ...]
    word_embeddings: str | None
    classifier: str
    head: tuple[str, ...]
    width_key: str = "hidden_size"
    head_dim_key: str | None = None
    kv_heads_key: str | None = None
    positions_key: str | None = "max_position_embeddings"
    shares_layers: bool = False
    causal: bool = False
    first_position: int = 0
    position_bias: Literal["handed on", "first layer"] | None = None
    bias_module: str | None = None
    kernels: tuple[str, ...] = ("eager", "sdpa")
    residual: Residual | None = None
    class_tokens: int = 0
    any_size: bool = False
    untold: tuple[str, ...] = ()
    architecture: str | None = None

    @property
    def reads_images(self) -> bool:
        """Whether it reads images; else texts."""
        return self.class_tokens > 0

    @property
    def reads_last(self) -> bool:
        """Whether the classifier reads the last real token; else it reads the first."""
        return self.causal or len(self.stacks) > 1

    @property
    def language_task(self) -> LanguageTask | None:
        """What its language model is trained to do; None for two stacks, which write a text of their own, and for
        images."""
        if len(self.stacks) > 1 or self.reads_images:
            return None
        return "text-generation" if self.causal else "fill-mask"


def _encoder(base: str, head: tuple[str, ...], classifier: str, **other: object) -> Family:
    """The shape that BERT gave to many."""
    about: dict[str, object] = {
        "stacks": (Stack(f"{base}.encoder.layer"),),
        "word_embeddings": f"{base}.embeddings.word_embeddings",
    }
    return Family(base=base, head=head, classifier=classifier, **{**about, **other})  # type: ignore[arg-type]


def _post_norm(
    base: str,
    readers: tuple[str, ...],
    last_norm: str,
    layer_norms: tuple[str, str] = ("attention.output.LayerNorm", "output.LayerNorm"),
    entry: str | None = None,
) -> Residual:
    """The stream of an encoder whose norms stand after each sum."""
    tables = tuple(f"{base}.embeddings.{kind}_embeddings" for kind in ("word", "position", "token_type"))
    return Residual(tables, layer_norms, (f"{base}.embeddings.LayerNorm",), readers, last_norm, entry)


_ROBERTA = _encoder(
    "roberta", ("classifier",), "classifier.out_proj", first_position=2,
    residual=_post_norm("roberta", ("classifier.dense", "lm_head.dense"), "lm_head.layer_norm"),
)  # fmt: skip
_DEBERTA = Attention(
    q=tuple(f"attention.self.{name}" for name in ("query_proj", "pos_query_proj", "pos_key_proj")),
    kv=("attention.self.key_proj", "attention.self.value_proj"),
)
_ALBERT = Attention("attention", ("attention.query",), ("attention.key", "attention.value"), None, "attention.dense")
_MPNET = Attention("attention.attn", ("attention.attn.q",), ("attention.attn.k", "attention.attn.v"), None,
                   "attention.attn.o")  # fmt: skip
_DISTILBERT = Attention("attention", ("attention.q_lin",), ("attention.k_lin", "attention.v_lin"), None,
                        "attention.out_lin", "n_heads", "dim")  # fmt: skip
_GPT2 = Attention("attn", (), (), "attn.c_attn", "attn.c_proj", "num_heads", "split_size")
_LLAMA = Attention("self_attn", ("self_attn.q_proj",), ("self_attn.k_proj", "self_attn.v_proj"), None,
                   "self_attn.o_proj", None, None)  # fmt: skip

_VISION_4 = Attention("attention.attention", ("attention.attention.query",),
                      ("attention.attention.key", "attention.attention.value"))  # fmt: skip
_VISION_5 = Attention("attention", ("attention.q_proj",), ("attention.k_proj", "attention.v_proj"), None,
                      "attention.o_proj", "num_attention_heads", None)  # fmt: skip


def _t5(name: str) -> Attention:
    return Attention(name, (f"{name}.q",), (f"{name}.k", f"{name}.v"), None, f"{name}.o", "n_heads", "inner_dim")


def _bart(name: str) -> Attention:
    kv = (f"{name}.k_proj", f"{name}.v_proj")
    return Attention(name, (f"{name}.q_proj",), kv, None, f"{name}.out_proj", "num_heads", "embed_dim")


def _t5_stack(side: str, depth_key: str, cross: Attention | None) -> Stack:
    ffn = f"layer.{2 if cross else 1}.DenseReluDense"
    return Stack(
        f"transformer.{side}.block", _t5("layer.0.SelfAttention"), cross,
        (f"{ffn}.wi", f"{ffn}.wi_0", f"{ffn}.wi_1"), f"{ffn}.wo", depth_key, "num_heads", "d_ff",
    )  # fmt: skip


def _bart_stack(side: str, cross: Attention | None) -> Stack:
    keys = (f"{side}_layers", f"{side}_attention_heads", f"{side}_ffn_dim")
    return Stack(f"model.{side}.layers", _bart("self_attn"), cross, ("fc1",), "fc2", *keys)


def _vision(
    name: str, class_tokens: int, layers: str, ffn: tuple[str, str], neurons_key: str, **other: object
) -> Family:
    """A model of image patches. Its parts have other names since transformers 5."""
    attention = _VISION_4 if generation() < 5 else _VISION_5
    stack = Stack(layers, attention, None, ffn[:1], ffn[1], neurons_key=neurons_key)
    about: dict[str, object] = {"positions_key": None, "class_tokens": class_tokens, **other}
    return Family(name, (stack,), None, "classifier", ("classifier",), **about)  # type: ignore[arg-type]


def _vit(name: str, class_tokens: int, architecture: str | None = None) -> Family:
    old = (f"{name}.encoder.layer", ("intermediate.dense", "output.dense"))
    new = (f"{name}.layers", ("mlp.fc1", "mlp.fc2"))
    where = old if generation() < 5 else new
    return _vision(name, class_tokens, *where, "intermediate_size", architecture=architecture)


FAMILIES: dict[str, Family] = {
    "bert": _encoder(
        "bert", ("bert.pooler", "classifier"), "classifier",
        residual=_post_norm("bert", ("bert.pooler.dense", "cls.predictions.transform.dense"),
                            "cls.predictions.transform.LayerNorm"),
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "electra": _encoder(
        "electra", ("classifier",), "classifier.out_proj", kernels=("eager",),
        residual=_post_norm("electra", ("classifier.dense", "generator_predictions.dense"),
                            "generator_predictions.LayerNorm", entry="electra.embeddings_project"),
    ),
    "distilbert": _encoder(
        "distilbert", ("pre_classifier", "classifier"), "classifier",
        stacks=(
            Stack("distilbert.transformer.layer", _DISTILBERT, None, ("ffn.lin1",), "ffn.lin2",
                  "n_layers", "n_heads", "hidden_dim"),
        ),
        width_key="dim",
        residual=_post_norm("distilbert", ("pre_classifier", "vocab_transform"), "vocab_layer_norm",
                            ("sa_layer_norm", "output_layer_norm")),
    ),
    "mpnet": _encoder(
        "mpnet", ("classifier",), "classifier.out_proj",
        stacks=(Stack("mpnet.encoder.layer", _MPNET),),
        first_position=2, position_bias="handed on", bias_module="attention", kernels=("eager",),
        residual=_post_norm("mpnet", ("classifier.dense", "lm_head.dense"), "lm_head.layer_norm",
                            ("attention.LayerNorm", "output.LayerNorm")),
    ),
    "deberta-v2": _encoder(
        "deberta", ("pooler", "classifier"), "classifier",
        stacks=(Stack("deberta.encoder.layer", _DEBERTA),), kernels=("eager",),
    ),
    "albert": _encoder(
        "albert", ("albert.pooler", "classifier"), "classifier",
        stacks=(Stack("albert.encoder.albert_layer_groups.0.albert_layers", _ALBERT, None, ("ffn",), "ffn_output"),),
        shares_layers=True, kernels=("eager",),
    ),
    "gpt2": Family(
        "transformer",
        (Stack("transformer.h", _GPT2, None, ("mlp.c_fc",), "mlp.c_proj", "n_layer", "n_head", "n_inner"),),
        "transformer.wte", "score", ("score",),
        width_key="n_embd", positions_key="n_positions", causal=True,
        residual=Residual(("transformer.wte", "transformer.wpe"), ("ln_1", "ln_2"), ("transformer.ln_f",),
                          ("score", "lm_head"), norm_first=True),
    ),
    "llama": Family(
        "model", (Stack("model.layers", _LLAMA, None, ("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj"),),
        "model.embed_tokens", "score", ("score",),
        head_dim_key="head_dim", kv_heads_key="num_key_value_heads", causal=True,
        residual=Residual(("model.embed_tokens",), ("input_layernorm", "post_attention_layernorm"), ("model.norm",),
                          ("score", "lm_head"), norm_first=True),
    ),
    "bart": Family(
        "model", (_bart_stack("encoder", None), _bart_stack("decoder", _bart("encoder_attn"))),
        "model.shared", "classification_head.out_proj", ("classification_head",), width_key="d_model",
    ),
    "t5": Family(
        "transformer",
        (_t5_stack("encoder", "num_layers", None),
         _t5_stack("decoder", "num_decoder_layers", _t5("layer.1.EncDecAttention"))),
        "transformer.shared", "classification_head.out_proj", ("classification_head",),
        width_key="d_model", head_dim_key="d_kv", positions_key=None, position_bias="first layer", kernels=("eager",),
    ),
    "vit": _vit("vit", 1),
    "deit": _vit("deit", 2, "DeiTForImageClassification"),
    "dinov2": _vision(
        "dinov2", 1, "dinov2.encoder.layer", ("mlp.fc1", "mlp.fc2"), "mlp_ratio",
        any_size=True, untold=("use_swiglu_ffn",),
    ),
}  # fmt: skip


def family_of(model_type: str, stated_in: Path | None = None) -> Family:
    """The family of `model_type`; InputError names the file it is `stated_in`, and what to add where it is unknown."""
    if model_type not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise InputError(
            f"{f'{stated_in}: ' if stated_in else ''}model type {model_type!r} has no anatomy here; known: {known}. "
            f"To use it, add a Family for {model_type!r} to FAMILIES in assay/core/model/anatomy.py"
        )
    return FAMILIES[model_type]
