"""Makes the tiny models: random weights, a real tokenizer of the family's kind, a real config."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)

from assay.core.artifact import PROBLEM_TYPES, Task
from assay.core.model.anatomy import family_of
from assay.core.model.load import builder_for

MAX_TOKENS = 128
WORDS = (
    "the a an of to and in is it this that with for as was on are be by at not but very film movie plot story acting "
    "actor scene director music good great bad awful fine dull bright slow quick funny sad warm cold love hate like "
    "enjoy watch see think feel find make time year day night man woman child life death world war home house dog cat "
    "one two three first last best worst more less most never always often well done made seen loved hated moving "
    "boring exciting beautiful ugly terrible wonderful perfect poor rich deep thin long short new old young"
)
IMAGE_SIDE = 32
_SQUARE = {"height": IMAGE_SIDE, "width": IMAGE_SIDE}
IMAGE_SETTINGS = {
    "vit": {"image_processor_type": "ViTImageProcessor", "size": _SQUARE, "resample": 2},
    "deit": {"image_processor_type": "DeiTImageProcessor", "size": {"height": 36, "width": 36}, "resample": 3,
             "do_center_crop": True, "crop_size": _SQUARE},
    "dinov2": {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 36}, "resample": 3,
               "do_center_crop": True, "crop_size": _SQUARE},
}  # fmt: skip
BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA_TOKENS = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}


def write_tiny(
    folder: Path,
    family: str = "bert",
    labels: tuple[str, ...] = ("neg", "pos"),
    layers: int = 4,
    heads: int = 4,
    width: int = 32,
    neurons: int = 48,
    seed: int = 0,
    task: Task = "text-classification",
    headless: bool = False,
) -> None:
    """Write weights, config and tokenizer. `headless` leaves the classification head out, as embedding models do; a
    language `task` gives the head that names tokens.

    All parameters, biases included, are noise of a size that makes each head, neuron and layer matter."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _files(family, labels, layers, heads, width, neurons, seed, task, headless).items():
        (folder / name).write_bytes(content)


@cache
def _files(
    family: str,
    labels: tuple[str, ...],
    layers: int,
    heads: int,
    width: int,
    neurons: int,
    seed: int,
    task: Task,
    headless: bool,
) -> dict[str, bytes]:
    """The content of such a folder by file name; hundreds of tests ask for the same few models."""
    reader = TinyImages(family) if family in IMAGE_SETTINGS else tiny_tokenizer(family)
    config = tiny_config(family, reader, labels, layers, heads, width, neurons, task)
    builder = AutoModel if headless else builder_for(task)
    with torch.random.fork_rng(devices=[]):
        model = builder.from_config(config)
    generator = torch.Generator().manual_seed(seed)
    scales = {id(module.weight) for module in model.modules() if type(module).__name__.endswith("Norm")}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(1.0 if id(parameter) in scales else 0.0, 0.2, generator=generator)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        reader.save_pretrained(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def tiny_config(
    family: str,
    tokenizer: PreTrainedTokenizerFast | TinyImages,
    labels: tuple[str, ...] = ("neg", "pos"),
    layers: int = 4,
    heads: int = 4,
    width: int = 32,
    neurons: int = 48,
    task: Task = "text-classification",
) -> PretrainedConfig:
    """Config of a small model of the family that fits the tokenizer; texts may have up to 128 tokens, images have 4 x 4
    patches."""
    shape = {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "hidden_size": width,
        "intermediate_size": neurons,
        "max_position_embeddings": MAX_TOKENS + 2,  # the RoBERTa kind starts its positions at pad_token_id + 1
    }
    if isinstance(tokenizer, TinyImages):
        return _image_config(family, shape, labels)
    if family == "distilbert":
        names = ("n_layers", "n_heads", "dim", "hidden_dim", "max_position_embeddings")
        shape = dict(zip(names, shape.values(), strict=True))
    if family in ("electra", "albert"):
        shape["embedding_size"] = width // 2 if family == "albert" else width
    if family == "deberta-v2":
        shape |= {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False,
                  "max_relative_positions": -1, "position_buckets": 16, "type_vocab_size": 0}  # fmt: skip
    if family == "llama":
        shape |= {"num_key_value_heads": max(1, heads // 2)}
    if family == "gpt2":
        shape = {"n_layer": layers, "n_head": heads, "n_embd": width, "n_inner": neurons, "n_positions": MAX_TOKENS}
    if family == "bart":
        shape = {
            f"{side}_{name}": size
            for side in ("encoder", "decoder")
            for name, size in (("attention_heads", heads), ("ffn_dim", neurons))
        }
        shape |= {"d_model": width, "max_position_embeddings": MAX_TOKENS, "encoder_layers": layers - layers // 2,
                  "decoder_layers": max(1, layers // 2)}  # fmt: skip
    if family == "t5":
        shape = {"num_layers": layers - layers // 2, "num_decoder_layers": max(1, layers // 2), "num_heads": heads,
                 "d_model": width, "d_ff": neurons, "d_kv": width // heads,
                 "feed_forward_proj": "gated-gelu"}  # fmt: skip
    if family in ("bart", "t5"):
        shape["decoder_start_token_id"] = tokenizer.pad_token_id
    return AutoConfig.for_model(
        family,
        **shape,
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id if tokenizer.cls_token is None else tokenizer.cls_token_id,
        eos_token_id=tokenizer.eos_token_id if tokenizer.sep_token is None else tokenizer.sep_token_id,
        id2label=dict(enumerate(labels)),
        label2id={name: index for index, name in enumerate(labels)},
        problem_type=PROBLEM_TYPES.get(task),
    )


@dataclass(frozen=True)
class TinyImages:
    """What a tiny model of images has in the place of a tokenizer."""

    family: str

    def save_pretrained(self, folder: str) -> None:
        """Write image settings as the family's published models have them, for 32 x 32 pixels."""
        settings = {"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "do_resize": True}
        settings |= {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.25, 0.5], **IMAGE_SETTINGS[self.family]}
        (Path(folder) / "preprocessor_config.json").write_text(json.dumps(settings))


def _image_config(family: str, shape: dict[str, int], labels: tuple[str, ...]) -> PretrainedConfig:
    shape = {name: size for name, size in shape.items() if name != "max_position_embeddings"}
    if family == "dinov2":
        shape["mlp_ratio"] = round(shape.pop("intermediate_size") / shape["hidden_size"])
    return AutoConfig.for_model(
        family,
        **shape,
        architectures=[family_of(family).architecture],
        image_size=IMAGE_SIDE,
        patch_size=8,
        id2label=dict(enumerate(labels)),
        label2id={name: index for index, name in enumerate(labels)},
        problem_type=PROBLEM_TYPES["image-classification"],
    )


def tiny_tokenizer(family: str = "bert") -> PreTrainedTokenizerFast:
    """Uncased WordPiece for the BERT kind (mpnet with its own special tokens), byte-level BPE for RoBERTa, Unigram for
    XLM-R."""
    tokens = BERT_TOKENS if family in ("bert", "distilbert", "electra") else ROBERTA_TOKENS
    core = _CORES.get(family, _word_piece)(tokens)
    if family in ("gpt2", "llama"):
        return _without_separators(core, family)
    cls, sep = ((tokens[name], core.token_to_id(tokens[name])) for name in ("cls", "sep"))
    core.post_processor = processors.TemplateProcessing(
        single=f"{cls[0]} $A {sep[0]}",
        pair=f"{cls[0]} $A {sep[0]} $B:1 {sep[0]}:1",
        special_tokens=[cls, sep],
    )
    has_segments = family in ("bert", "electra", "albert")
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=MAX_TOKENS,
        model_input_names=["input_ids", *["token_type_ids"] * has_segments, "attention_mask"],
        **{f"{name}_token": token for name, token in tokens.items()},
    )


def _word_piece(tokens: dict[str, str]) -> Tokenizer:
    characters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces = [*tokens.values(), *characters, *(f"##{character}" for character in characters), *WORDS.split()]
    pieces += ["##ing", "##ly"]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token=tokens["unk"], max_input_chars_per_word=100))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    return core


def _byte_level_bpe(tokens: dict[str, str]) -> Tokenizer:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=450, special_tokens=list(tokens.values()), initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator([WORDS], trainer)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return core


def _unigram(tokens: dict[str, str]) -> Tokenizer:
    """Words cost less than their characters; pieces of words lie between."""
    words = [f"\u2581{word}" for word in WORDS.split()]
    characters = ["\u2581", *(chr(code) for code in range(33, 127))]
    pieces = dict.fromkeys(tokens.values(), 0.0)
    for score, kind in ((-6.0, words), (-7.0, ["ing", "ly", "er", "ed", "\u2581un"]), (-9.0, characters)):
        pieces |= {piece: score - 0.01 * place for place, piece in enumerate(kind)}
    core = Tokenizer(models.Unigram(list(pieces.items()), unk_id=list(pieces).index(tokens["unk"])))
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    return core


def _without_separators(core: Tokenizer, family: str) -> PreTrainedTokenizerFast:
    """As decoders have it: nothing around the text but Llama's start token, and nothing to pad with."""
    if family == "llama":
        start = core.token_to_id("<s>")
        core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=MAX_TOKENS,
        model_input_names=["input_ids", "attention_mask"],
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


_CORES = {
    "roberta": _byte_level_bpe, "gpt2": _byte_level_bpe, "bart": _byte_level_bpe,
    "xlm-roberta": _unigram, "llama": _unigram, "t5": _unigram, "albert": _unigram, "deberta-v2": _unigram,
}  # fmt: skip
