"""The word embedding as two matrices (Lan et al. 2020, "ALBERT", https://arxiv.org/abs/1909.11942, section 3.1).

The table becomes [tokens, rank]; each embedding module that holds it hands on what it looks up through one map from
rank to width, `expand`, by a hook of ours: so that its own scaling and its place in the model stay as they are.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from assay.core.errors import InputError
from assay.core.model.anatomy import Family
from assay.core.model.linear import linear_of
from assay.core.model.low_rank import factors


def word_table(module: nn.Module, family: Family) -> nn.Parameter:
    """The parameter with one row a token, [tokens, width] or [tokens, rank]."""
    assert family.word_embeddings is not None
    return module.get_submodule(family.word_embeddings).get_parameter("weight")


def check_embedding(module: nn.Module, family: Family, rank: int | None) -> None:
    """InputError where the table has no such rank, or something beside embeddings holds it too."""
    assert rank is not None
    table = word_table(module, family)
    if rank > min(table.shape):
        tokens, width = table.shape
        raise InputError(f"factorise_embedding: rank {rank} of a table of {tokens} tokens by {width}; give less")
    for name, part in _holders(module, table).items():
        if not isinstance(part, nn.Embedding):
            raise InputError(f"factorise_embedding: {name} has the same weights; only classifiers can be factored here")


def factorise_embedding(module: nn.Module, family: Family, rank: int | None, empty: bool = False) -> None:
    """Split the table in place, wherever it is held; a lookup of a token gives its nearest vector of that rank."""
    assert rank is not None
    table = word_table(module, family)
    right, left = factors(table, rank, empty)  # [rank, width], [tokens, rank]
    expand = linear_of(right.T, requires_grad=table.requires_grad)
    smaller = nn.Parameter(left, requires_grad=table.requires_grad)
    for part in _holders(module, table).values():
        part.weight = smaller
        part.embedding_dim = rank  # type: ignore[assignment]
        part.expand = expand
        part.register_forward_hook(_expanded)


def _holders(module: nn.Module, table: nn.Parameter) -> dict[str, nn.Module]:
    """Every module that holds the parameter itself, by name, each once."""
    return {name: part for name, part in module.named_modules() if getattr(part, "weight", None) is table}


def _expanded(embedding: nn.Module, args: Any, output: Tensor) -> Tensor:
    """[..., rank] -> [..., width]."""
    return embedding.expand(output)  # type: ignore[operator]
