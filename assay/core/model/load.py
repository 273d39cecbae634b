"""Artifact -> torch module or ONNX session, and back to a folder; the only place that rebuilds edited shapes.

Nothing is initialised anew in silence: weights that the config asks for and the file lacks are an error, but for the
head of a pretrained source. Everything is read from the folder; nothing is downloaded.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, load_model
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from assay.core.artifact import PROBLEM_TYPES, WEIGHTS, Artifact, is_language
from assay.core.errors import InputError, NotGiven
from assay.core.model.anatomy import family_of
from assay.core.model.corrupt import check_content, check_weights, first_line, truncated
from assay.core.model.edits import apply_edits, edits_from_json, restore_config
from assay.core.model.generations import (
    dropped_settings,
    mismatched_names,
    name_in_module,
    open_tokenizer,
    quiet_transformers,
    save_tokenizer,
    version_of,
    written_by_other,
)
from assay.core.model.head import REGRESSION_NAMES, fit_head, head_names, set_names
from assay.core.model.image_settings import patch_edge, read_settings
from assay.core.model.images import ImageEncoder
from assay.core.model.inputs import longest_input

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

BUILDERS: dict[str, Any] = {
    "fill-mask": AutoModelForMaskedLM,
    "text-generation": AutoModelForCausalLM,
    "image-classification": AutoModelForImageClassification,
}
log = logging.getLogger(__name__)


def load_module(artifact: Artifact, attn_implementation: str = "eager") -> PreTrainedModel:
    """The model with its head for the task, in evaluation mode, in the dtype it was saved in.

    "eager" attention gives its weights when asked; "sdpa" is faster and used where the family has it. NotGiven for an
    ONNX artifact; InputError where the file is damaged or does not fit the config and edits."""
    if artifact.format != "torch":
        raise NotGiven(f"{artifact.path}: an {artifact.format} artifact holds no torch weights")
    path = artifact.path / WEIGHTS
    check_weights(path)
    if artifact.edits:
        return _rebuild(artifact, attn_implementation).eval()
    module, missing = _from_pretrained(artifact, _config(artifact), attn_implementation, "auto")
    if missing:
        raise InputError(
            f"{path}: the config asks for tensors that are missing or of another shape: {', '.join(missing)}"
            f"{written_by_other(artifact.config)}"
        )
    return module.eval()


def load_source(
    artifact: Artifact, labels: tuple[str, ...], seed: int, attn_implementation: str = "sdpa"
) -> PreTrainedModel:
    """A pretrained model that Assay did not write, in float32, with a head for `labels`, in evaluation mode.

    A head for the same class names is kept, its outputs put in the order of `labels`; otherwise it is drawn from `seed`
    and the log says so. `labels` is empty for regression. A language model must have the head that names tokens.
    InputError where anything else is missing."""
    check_weights(artifact.path / WEIGHTS)
    if is_language(artifact.task):
        return _language_source(artifact, attn_implementation)
    wanted = labels or REGRESSION_NAMES
    names = head_names(artifact.labels, wanted)
    config = _config(artifact)
    set_names(config, names)
    config.problem_type = PROBLEM_TYPES[artifact.task]
    module, missing = _from_pretrained(artifact, config, attn_implementation, torch.float32)
    try:
        fit_head(module, family_of(artifact.family), wanted, names == artifact.labels, missing, seed)
    except InputError as error:
        raise InputError(f"{artifact.path / WEIGHTS}: {error}{written_by_other(artifact.config)}") from None
    return module.eval()


def builder_for(task: str) -> Any:
    """The class of transformers that builds a model for the task."""
    return BUILDERS.get(task, AutoModelForSequenceClassification)


def _language_source(artifact: Artifact, attn_implementation: str) -> PreTrainedModel:
    module, missing = _from_pretrained(artifact, _config(artifact), attn_implementation, torch.float32)
    if missing:
        raise InputError(
            f"{artifact.path / WEIGHTS}: not a whole language model for {artifact.task}, it lacks "
            f"{', '.join(missing)}{written_by_other(artifact.config)}"
        )
    return module.eval()


def save_module(module: PreTrainedModel, out: Path, reader: Any) -> None:
    """Write weights (one file, a shared tensor once), config and what `load_reader` gave: image settings, or a
    tokenizer, whose pad token the config gets if it has none."""
    if isinstance(reader, PreTrainedTokenizerBase) and module.config.pad_token_id is None:
        module.config.pad_token_id = reader.pad_token_id
    with quiet_transformers():
        module.save_pretrained(out, max_shard_size="1TB", state_dict=_each_once(module))
    save_reader(reader, out)


def save_reader(reader: Any, out: Path) -> None:
    """Write what `load_reader` gave."""
    if isinstance(reader, PreTrainedTokenizerBase):
        save_tokenizer(reader, out)
    else:
        reader.save_pretrained(out)


def _each_once(module: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Every tensor under its first name alone: a file has no place for one of two names, as shared layers have."""
    named: dict[int, str] = {}
    whole = module.state_dict(keep_vars=True)
    for name, tensor in whole.items():
        named.setdefault(id(tensor), name)
    return {name: whole[name].detach() for name in named.values()}


def load_reader(artifact: Artifact) -> Any:
    """What a model reads its rows with: the tokenizer of its folder, see `load_tokenizer`, or the ImageEncoder. Both
    have `save_pretrained(folder)`."""
    family = family_of(artifact.family)
    if not family.reads_images:
        return load_tokenizer(artifact)
    patch = patch_edge(artifact.config, artifact.path / "config.json")
    return ImageEncoder(read_settings(artifact.path), family.class_tokens, patch)


def load_tokenizer(artifact: Artifact) -> PreTrainedTokenizerBase:
    """The folder's tokenizer; `model_max_length` is at most the number of positions the model has.

    Where it has no pad token, the end token pads, or the start or unknown one. InputError where none can, and where the
    folder holds no usable tokenizer."""
    try:
        tokenizer = open_tokenizer(artifact.path)
    except Exception as error:  # tokenizers raises nothing narrower for a file it cannot read
        cause = f"{first_line(error)}{written_by_other(artifact.config)}"
        raise InputError(f"{artifact.path}: no usable tokenizer ({cause})") from None
    tokenizer.model_max_length = min(tokenizer.model_max_length, longest_input(artifact.config))
    tokenizer.padding_side = "right"  # where positions are counted from the first column, padding must come after
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.sep_token or tokenizer.bos_token or tokenizer.unk_token
        if tokenizer.pad_token is None:
            raise InputError(f"{artifact.path}: no token can pad; name a pad_token in tokenizer_config.json")
        log.warning("%s: the tokenizer has no pad token; %s pads", artifact.path, tokenizer.pad_token)
    return tokenizer


def find_graph(path: Path) -> Path:
    """The ONNX file of a folder, or `path` itself where it is a file.

    InputError where the folder holds none, or several and it cannot be known which is meant."""
    if path.is_file():
        return path
    graphs = sorted(path.glob("*.onnx"))
    if not graphs:
        raise InputError(f"{path}: no .onnx file")
    if len(graphs) > 1:
        found = ", ".join(f"{graph.name} ({graph.stat().st_size} bytes)" for graph in graphs)
        raise InputError(f"{path}: which graph? found {found}; name one, e.g. {graphs[0]}")
    return graphs[0]


def load_session(artifact: Artifact, threads: int | None = None) -> InferenceSession:
    """The artifact's graph on the CPU, with `threads` threads (default: all cores). Idle threads do not spin.

    InputError where the file is damaged or onnxruntime refuses it."""
    return open_graph(find_graph(artifact.path), threads)


def open_graph(path: Path, threads: int | None = None) -> InferenceSession:
    """As `load_session`, for one ONNX file."""
    import onnxruntime

    check_content(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors share no public base class
        if "INVALID_PROTOBUF" in str(error):
            raise truncated(path, error) from None
        raise InputError(f"{path}: onnxruntime cannot load it: {first_line(error)}") from None


def _rebuild(artifact: Artifact, attn_implementation: str) -> PreTrainedModel:
    """Original shape from the config, edits replayed on it, then the weights, every one of them."""
    edits = edits_from_json(artifact.edits)
    family = family_of(artifact.family)
    config = _config(artifact)
    restore_config(config, edits, family)
    with torch.random.fork_rng(devices=[]):
        kernel = _kernel(artifact, attn_implementation)
        module = builder_for(artifact.task).from_config(config, attn_implementation=kernel)
    apply_edits(module, edits, family, empty=True)
    path = artifact.path / WEIGHTS
    try:
        if family.reads_images:
            _fill(module, artifact)
        else:
            load_model(module, path, strict=True)
    except RuntimeError as error:
        raise InputError(f"{path}: weights do not fit config.json and the edits in manifest.json: {error}") from None
    return module


def _fill(module: PreTrainedModel, artifact: Artifact) -> None:
    """The weights under the names of the installed transformers; RuntimeError where they are not the module's."""
    named = load_file(artifact.path / WEIGHTS)
    state = {name_in_module(artifact.family, name): tensor for name, tensor in named.items()}
    wanted = _each_once(module).keys()
    if state.keys() != wanted:
        raise RuntimeError(f"missing or surplus tensors: {', '.join(sorted(state.keys() ^ wanted))}")
    module.load_state_dict(state, strict=False)


def _from_pretrained(
    artifact: Artifact, config: PretrainedConfig, attn_implementation: str, dtype: Any
) -> tuple[PreTrainedModel, list[str]]:
    """The module, and the names of parameters that the file lacks or holds in another shape.

    InputError where the file holds layers that the config does not have."""
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        module, info = builder_for(artifact.task).from_pretrained(
            artifact.path,
            config=config,
            attn_implementation=_kernel(artifact, attn_implementation),
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    family = family_of(artifact.family)
    layers = tuple(f"{stack.layers.removeprefix(family.base)}." for stack in family.stacks)
    surplus = sorted(name for name in info["unexpected_keys"] if any(path in f".{name}" for path in layers))
    if surplus:
        raise InputError(f"{artifact.path / WEIGHTS}: holds tensors the config has no place for: {', '.join(surplus)}")
    return module, sorted(mismatched_names(info["mismatched_keys"]).union(info["missing_keys"]))


def _config(artifact: Artifact) -> PretrainedConfig:
    """The folder's config; InputError where the installed transformers would build another model from it."""
    if dropped := dropped_settings(artifact.config):
        path, installed = artifact.path / "config.json", version_of("transformers")
        said = f"transformers {installed} ignores {', '.join(dropped)}{written_by_other(artifact.config)}"
        raise InputError(f"{path}: {said}")
    config = AutoConfig.from_pretrained(artifact.path, local_files_only=True)
    family = family_of(artifact.family)
    if family.causal or len(family.stacks) > 1:
        config.use_cache = False  # of keys and values for the next token, which a classifier never asks for
    if family.architecture:
        config.architectures = [family.architecture]
    if (
        not family.reads_images and config.pad_token_id is None
    ):  # a classifier of the causal kind refuses batches without one
        config.pad_token_id = load_tokenizer(artifact).pad_token_id
    return config


def _kernel(artifact: Artifact, wanted: str) -> str:
    return wanted if wanted in family_of(artifact.family).kernels else "eager"
