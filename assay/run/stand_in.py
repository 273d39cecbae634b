"""The stand-in of `--tiny`: a two-layer random model of the same family with the same tokenizer, made in a second."""

from __future__ import annotations

import shutil
from pathlib import Path

from assay.core.artifact import WEIGHTS, read_config

# Every name under which a family keeps the same size; setting one that it does not read does no harm.
_SIZES = {
    "hidden_size": 32, "dim": 32, "embedding_size": 32,
    "num_hidden_layers": 2, "n_layers": 2,
    "num_attention_heads": 4, "n_heads": 4,
    "intermediate_size": 64, "hidden_dim": 64,
}  # fmt: skip


def make_stand_in(source: Path, out: Path, seed: int) -> Path:
    """Write the small model under `out` and return the folder. Same source and seed, same bytes."""
    import torch
    from transformers import AutoConfig, AutoModel

    known = read_config(source)
    shutil.rmtree(out, ignore_errors=True)
    config = AutoConfig.from_pretrained(source, local_files_only=True)
    config.update({name: size for name, size in _SIZES.items() if name in known})
    torch.manual_seed(seed)
    AutoModel.from_config(config).save_pretrained(out)
    for path in source.iterdir():
        if path.is_file() and path.name not in ("config.json", WEIGHTS) and path.suffix in (".json", ".txt", ".model"):
            shutil.copy(path, out / path.name)
    return out
