"""Cut the vocabulary of a transformer in place: the word embedding and, where the model predicts tokens, its decoder.

Parameters that are tied stay one parameter. Embeddings of positions and segments are not touched. The tokenizer must be
cut to the same tokens (`compress/vocabulary`), or it gives ids that mean something else now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from transformers import PreTrainedModel

from assay.core.errors import AssayError, InputError
from assay.core.model.anatomy import Family
from assay.core.model.embedding import word_table
from assay.core.model.ranges import to_ranges
from assay.core.model.token_ids import anchored, flat, named_ids, renumber


def cut_vocabulary(module: PreTrainedModel, family: Family, before: Sequence[int], after: Sequence[int]) -> None:
    """Keep the rows of the tokens `after`, a part of the tokens `before`; both are original ids, ascending.

    Size and token ids in the config follow. Before anything is cut: AssayError where the model has other tokens than
    `before`; InputError where the config names a token that would go, or a padding id that positions are counted from
    would move."""
    rows = len(word_table(module, family))
    if rows != len(before):
        raise AssayError(f"the word embedding has {rows} rows, its config and edits say {len(before)}")
    if len(after) == len(before):
        return
    place = {token: position for position, token in enumerate(before)}
    positions = [place[token] for token in after]
    new_ids = {old: new for new, old in enumerate(positions)}
    _check_named(module, family, new_ids, rows)
    for parameter in _rows_a_token(module, family):
        _replace_everywhere(module, parameter, positions, new_ids)
    module.config.vocab_size = len(after)
    renumber(module.config, new_ids)


def _check_named(module: PreTrainedModel, family: Family, new_ids: Mapping[int, int], rows: int) -> None:
    for name, ids in named_ids(module.config).items():
        lost = [i for i in flat(ids) if i in range(rows) and i not in new_ids]
        if lost:
            raise InputError(f"keep_vocab: {name} of the config is {lost[0]}, which would go; keep that token")
    fixed = anchored(module.config, family)
    moved = [i for i in fixed if new_ids.get(i) != i]
    if moved:
        raise InputError(
            f"keep_vocab: this family counts positions from its padding id, so tokens {to_ranges(fixed)} must stay; "
            f"{to_ranges(moved)} would not"
        )


def _rows_a_token(module: PreTrainedModel, family: Family) -> list[nn.Parameter]:
    """Every parameter with one row a token, tied ones once."""
    decoder = module.get_output_embeddings()
    held = [word_table(module, family), *(decoder.parameters() if decoder is not None else ())]
    return list({id(parameter): parameter for parameter in held}.values())


def _replace_everywhere(
    module: nn.Module, old: nn.Parameter, positions: Sequence[int], new_ids: Mapping[int, int]
) -> None:
    """Put the rows at `positions` in the place of `old`, under whatever names it is held."""
    index = torch.tensor(positions, device=old.device)
    new = nn.Parameter(old.detach().index_select(0, index), requires_grad=old.requires_grad)
    for part in module.modules():
        held = [name for name, value in part.named_parameters(recurse=False, remove_duplicate=False) if value is old]
        for name in held:
            setattr(part, name, new)
        if held:
            _follow(part, len(new), new_ids)


def _follow(part: nn.Module, size: int, new_ids: Mapping[int, int]) -> None:
    if isinstance(part, nn.Embedding):
        part.num_embeddings = size
        part.padding_idx = None if part.padding_idx is None else new_ids.get(part.padding_idx)
    elif isinstance(part, nn.Linear):
        part.out_features = size
