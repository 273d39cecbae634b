"""The token ids that a config names (`pad_token_id`, `eos_token_id`, ...), which follow when a vocabulary is cut."""

from __future__ import annotations

from collections.abc import Mapping

from transformers import PretrainedConfig

from assay.core.model.anatomy import Family


def named_ids(config: PretrainedConfig) -> dict[str, int | list[int]]:
    """Name -> id, or ids, of every token the config names."""
    return {name: ids for name, ids in config.to_dict().items() if name.endswith("_token_id") and ids is not None}


def flat(ids: int | list[int]) -> list[int]:
    """One id or several as a list."""
    return ids if isinstance(ids, list) else [ids]


def needed(config: PretrainedConfig, family: Family) -> set[int]:
    """Ids that must stay in the vocabulary: those the config names and those that cannot be moved."""
    named = {i for ids in named_ids(config).values() for i in flat(ids)}
    return named.intersection(range(config.vocab_size)) | set(anchored(config, family))


def renumber(config: PretrainedConfig, new: Mapping[int, int]) -> None:
    """Replace every id the config names by its `new` one. An id without one, as the -1 of some configs, stays."""
    for name, ids in named_ids(config).items():
        setattr(config, name, [new.get(i, i) for i in ids] if isinstance(ids, list) else new.get(ids, ids))


def anchored(config: PretrainedConfig, family: Family) -> range:
    """Ids that must keep their number: a family that counts positions on from the padding id cannot have it moved."""
    padding = -1 if config.pad_token_id is None else config.pad_token_id
    return range(max(family.first_position, padding + 1)) if family.first_position else range(0)
