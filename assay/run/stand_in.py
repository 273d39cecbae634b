"""The stand-in of `--tiny`: a two-layer random model of the same family with the same tokenizer, made in a second."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from assay.core.artifact import WEIGHTS, Task, is_language, read_config
from assay.core.manifest import hash_file, hash_folder, key_of, write_json
from assay.core.model.anatomy import family_of

# Every name under which a family keeps the same size; setting one that it does not read does no harm.
_SIZES = {
    "hidden_size": 32, "dim": 32, "embedding_size": 32, "n_embd": 32, "d_model": 32, "pooler_hidden_size": 32,
    "num_hidden_layers": 2, "n_layers": 2, "n_layer": 2, "num_layers": 2, "num_decoder_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2,
    "num_attention_heads": 4, "n_heads": 4, "n_head": 4, "num_heads": 4, "num_key_value_heads": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "head_dim": 8, "d_kv": 8,
    "intermediate_size": 64, "hidden_dim": 64, "n_inner": 64, "d_ff": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip


def make_stand_in(source: Path, out: Path, seed: int, task: Task = "text-classification") -> Path:
    """Write the small model under `out` and return the folder; a whole one of the same source and seed stays.

    Same source, seed and task, same bytes. It has a classification head where the source has one, and the head that
    names tokens where the task asks for it."""
    config = read_config(source)
    family_of(config["model_type"], source / "config.json")
    files = [path for path in sorted(source.iterdir()) if _is_tokenizer(path)]
    key = key_of("stand-in", _SIZES, config, {path.name: hash_file(path) for path in files}, seed, task)
    seal = out.with_name(f"{out.name}.json")
    if not (out.is_dir() and _read(seal) == {"key": key, "files": hash_folder(out)}):
        shutil.rmtree(out, ignore_errors=True)
        _write(source, config, files, out, seed, task)
        write_json(seal, {"key": key, "files": hash_folder(out)})
    return out


def _write(source: Path, known: dict[str, Any], files: list[Path], out: Path, seed: int, task: Task) -> None:
    import torch
    from transformers import AutoConfig, AutoModel

    from assay.core.model.generations import name_stages, quiet_transformers
    from assay.core.model.load import builder_for

    config = AutoConfig.from_pretrained(source, local_files_only=True)
    if architecture := family_of(config.model_type).architecture:
        config.architectures = [architecture]
    config.update({name: size for name, size in _SIZES.items() if name in known})
    if hasattr(config, "stage_names"):
        name_stages(config, _SIZES["num_hidden_layers"])
    has_head = any(
        name.endswith(("ForSequenceClassification", "ForImageClassification"))
        for name in known.get("architectures") or ()
    )
    builder = builder_for(task) if has_head or is_language(task) else AutoModel
    torch.manual_seed(seed)
    with quiet_transformers():
        builder.from_config(config).save_pretrained(out)
    for path in files:
        shutil.copy(path, out / path.name)


def _is_tokenizer(path: Path) -> bool:
    known = path.suffix in (".json", ".txt", ".model") and path.name not in ("config.json", WEIGHTS)
    return known and path.is_file()


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
