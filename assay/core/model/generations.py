"""All that differs between transformers 4.57 and 5 for us, each with its reason. Imports neither at its head.

The rest of Assay uses what both have: heads are masked by our own hooks (5 ignores `head_mask`, `prune_heads` is gone)
and attentions are read from eager attention (5 gives none from its fused kernels). Weights have the same names in both.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

INSTALL = {4: "transformers>=4.57.6,<5", 5: "transformers>=5,<6"}
# The class of a tokenizer that is nothing but its tokenizer.json: 5 writes the second name, which 4.57 does not know.
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
VOCABULARIES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model",
)  # fmt: skip
# Settings of a config that 4.57 builds another model for and 5 passes over in silence, with the values that do no harm.
DROPPED_BY_5: dict[str, tuple[Any, ...]] = {"position_embedding_type": (None, "absolute"), "pruned_heads": (None, {})}

# Names of a layer's tensors in weights files (those of 4.57), and in the modules of 5.
_ATTENTION_OF_5 = (
    (r"\.attention\.attention\.query\.", ".attention.q_proj."),
    (r"\.attention\.attention\.key\.", ".attention.k_proj."),
    (r"\.attention\.attention\.value\.", ".attention.v_proj."),
    (r"\.attention\.output\.dense\.", ".attention.o_proj."),
)
_LAYERS_OF_5 = (
    (r"\.encoder\.layer\.", ".layers."),
    *_ATTENTION_OF_5,
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"\.output\.dense\.", ".mlp.fc2."),
)
RENAMED_BY_5 = {"vit": _LAYERS_OF_5, "deit": _LAYERS_OF_5, "dinov2": _ATTENTION_OF_5}


@cache
def version_of(package: str) -> str | None:
    """Installed version of a distribution, None where it is not installed. Read once: it parses a file each time."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def generation() -> int:
    """4 or 5: the installed generation of transformers."""
    return int((version_of("transformers") or "0").partition(".")[0])


def why_no_optimum() -> str | None:
    """Why graphs cannot be exported through optimum here, None where they can.

    optimum-onnx 0.1 was made for transformers below 4.58 and says so in its requirements; pip may leave it installed
    beside another version all the same, where it fails at import or later."""
    absent = [name for name in ("optimum", "optimum-onnx") if version_of(name) is None]
    if absent:
        return f"{' and '.join(absent)} not installed"
    installed = version_of("transformers") or "none"
    needed = (Requirement(text) for text in importlib.metadata.requires("optimum-onnx") or ())
    for item in needed:
        if item.name == "transformers" and not item.specifier.contains(installed, prereleases=True):
            return f"optimum-onnx {version_of('optimum-onnx')} needs {item}, {installed} is installed"
    return None


def written_by_other(config: Mapping[str, Any]) -> str:
    """For the end of an error: which version wrote a folder and what to install; empty where ours could have."""
    version = str(config.get("transformers_version") or "")
    major = int(version.partition(".")[0]) if version[:1].isdigit() else generation()
    if major == generation() or major not in INSTALL:
        return ""
    installed = version_of("transformers")
    return f"; transformers {version} wrote it, {installed} is installed: pip install '{INSTALL[major]}'"


def dropped_settings(config: Mapping[str, Any]) -> list[str]:
    """Settings of `config.json` that change the model under 4.57 and that the installed transformers would ignore."""
    given = ((name, config.get(name), harmless) for name, harmless in DROPPED_BY_5.items())
    return [f"{name}: {value}" for name, value, harmless in given if generation() >= 5 and value not in harmless]


def mismatched_names(keys: Iterable[Any]) -> set[str]:
    """Parameters of another shape, from `mismatched_keys` of the loading info: 4.57 lists names, 5 tuples of name and
    both shapes."""
    return {key if isinstance(key, str) else key[0] for key in keys}


def name_stages(config: PretrainedConfig, depth: int) -> None:
    """Let what DINOv2's config says about the outputs of a backbone follow its depth: it opens with no other names."""
    config.stage_names = ["stem", *(f"stage{number}" for number in range(1, depth + 1))]
    last = config.stage_names[-1:]
    if generation() < 5:
        config.out_features = last
    else:
        config.set_output_features_output_indices(out_features=last, out_indices=None)


def name_in_module(family: str, stored: str) -> str:
    """What the installed transformers calls a tensor of a weights file, which has the names of 4.57 whoever wrote it.

    5 renamed the parts of models of images, and translates only where it loads and saves whole models itself."""
    if generation() < 5 or family not in RENAMED_BY_5:
        return stored
    for old, new in RENAMED_BY_5[family]:
        stored = re.sub(old, new, stored)
    return stored


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without the loader's warnings about new weights, and without the bars that 5 draws when it loads and saves."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder, which cuts texts as its `tokenizer.json` says, whichever generation wrote it.

    Each generation departs from the file in places, in silence. 5 builds the tokenizer of a named class (BertTokenizer,
    ...) anew from the vocabulary, without the file's own normalizer, pre-tokenizer and template; such a one is opened
    as the generic class instead. The generic class of 4.57 turns `add_prefix_space` off unless the settings name it.
    Flags that the settings or the class state (`do_lower_case`, ...) count in both.
    Raises what transformers and tokenizers raise, and OSError where there is no vocabulary: 5 would invent one."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not any((folder / name).is_file() for name in VOCABULARIES):
        raise OSError(f"none of {', '.join(VOCABULARIES)}")
    settings = _settings(folder)
    generic = settings.get("tokenizer_class") in GENERIC
    with quiet_transformers():
        reader = PreTrainedTokenizerFast if generic else AutoTokenizer
        tokenizer = reader.from_pretrained(folder, local_files_only=True, **_extra_tokens(settings))
        if not (folder / VOCABULARIES[0]).is_file() or (generation() < 5 and not generic):
            return tokenizer
        stated = Tokenizer.from_file(str(folder / VOCABULARIES[0]))
        wanted = _wanted(tokenizer.backend_tokenizer, stated, settings, generic)
        if not generic and _differ(tokenizer.backend_tokenizer, wanted | {"model": stated.model}):
            names = tokenizer.model_input_names
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True, model_input_names=names)
            generic = True
    if generic:
        for part, value in wanted.items():
            setattr(tokenizer.backend_tokenizer, part, value)
    return tokenizer


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, out: Path) -> None:
    """Write the tokenizer so that both generations open it: 4.57 refuses the name that 5 gives the generic class, and
    its list of additional special tokens; 5 reads those of 4.57. What 5 adds about how it was opened is left out."""
    tokenizer.save_pretrained(out)
    settings = _settings(out)
    changed = {name: value for name, value in settings.items() if name not in ("is_local", "local_files_only")}
    if settings.get("tokenizer_class") in GENERIC:
        changed["tokenizer_class"] = GENERIC[0]
    if isinstance(settings.get("extra_special_tokens"), list):
        changed["additional_special_tokens"] = changed.pop("extra_special_tokens")
    if changed != settings:
        text = json.dumps(changed, indent=2, sort_keys=True, ensure_ascii=False)
        (out / "tokenizer_config.json").write_text(f"{text}\n", encoding="utf-8")


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _extra_tokens(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that put the list of 5 into the words of 4.57, which takes `extra_special_tokens` for a dict."""
    extra = settings.get("extra_special_tokens")
    if generation() >= 5 or not isinstance(extra, list):
        return {}
    return {"extra_special_tokens": {}, "additional_special_tokens": extra}


def _wanted(given: Tokenizer, stated: Tokenizer, settings: Mapping[str, Any], generic: bool) -> dict[str, Any]:
    """The parts of the file, but for those in which the class differs by flags alone (case, accents, first space)."""
    parts = ("normalizer", "pre_tokenizer", "post_processor")
    wanted = {part: getattr(stated, part) for part in parts}
    for part in parts[:2]:
        ours = getattr(given, part)
        flags_only = type(ours) is type(wanted[part]) and type(ours).__name__ in ("BertNormalizer", "ByteLevel")
        if flags_only and (not generic or "add_prefix_space" in settings):
            wanted[part] = ours
    return wanted


def _differ(given: Tokenizer, wanted: Mapping[str, Any]) -> bool:
    return any(_state(getattr(given, part)) != _state(value) for part, value in wanted.items())


def _state(part: Any) -> Any:
    """A part as plain data, without what is empty and what moves only offsets."""
    if part is None:
        return None
    data = json.loads(part.__getstate__())
    offsets = ("trim_offsets", "add_prefix_space" if data.get("type") == "RobertaProcessing" else "")
    return {name: value for name, value in data.items() if value and name not in offsets}
