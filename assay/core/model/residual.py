"""What writes, reads and normalises the states between the layers of a live model, the residual stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from torch import Tensor, nn
from transformers import PreTrainedModel

from assay.core.errors import InputError
from assay.core.model.anatomy import Family, Residual
from assay.core.model.blocks import Block, blocks_of
from assay.core.model.embedding import word_table
from assay.core.model.linear import in_width
from assay.core.model.rotated_norm import centres, mean_direction


@dataclass(frozen=True)
class Norm:
    """A norm over the states, at `path` from `owner`. `places`: positions of the layers that it is in, none where it is
    outside. `read_by`: the linear maps that alone read what it gives; empty where that is a state of the stream."""

    owner: nn.Module
    path: str
    places: tuple[int, ...] = ()
    read_by: tuple[nn.Module, ...] = ()

    @property
    def module(self) -> nn.Module:
        """As it is now."""
        return self.owner.get_submodule(self.path)


@dataclass(frozen=True)
class Stream:
    """`tables`: parameters [.., width], each once; `writers`: linear maps that give states; `readers`: those that read
    states or what a norm makes of them; `last_norm`: the one whose output is multiplied by a table to name tokens."""

    tables: tuple[nn.Parameter, ...]
    writers: tuple[nn.Module, ...]
    readers: tuple[nn.Module, ...]
    norms: tuple[Norm, ...]
    last_norm: Norm | None

    @property
    def mean(self) -> Tensor | None:
        """[width] float64, of length 1: along it lies what the norms subtract; None where they subtract nothing."""
        norm = self.norms[-1].module
        width = in_width(self.readers[0])
        return mean_direction(norm, width) if centres(norm) else None


def stream_of(model: PreTrainedModel, family: Family) -> Stream:
    """The stream of a model; InputError where the anatomy of its family does not tell."""
    if family.residual is None:
        raise InputError(f"{family.base}: its anatomy does not say where states are written and read")
    told = family.residual
    there = {name for name, _ in model.named_modules()}
    entry = [model.get_submodule(told.entry)] if told.entry and told.entry in there else []
    layers = _each_once(blocks_of(model, family))
    tables, expanding = _tables(model, told, there) if not entry else ((), [])
    tied = _names_tokens_by(model, family, tables)
    norms = [Norm(model, path) for path in told.norms if not entry]
    heads = [model.get_submodule(path) for path in told.readers if path in there]
    return Stream(
        tables=tables,
        writers=(*entry, *expanding, *chain.from_iterable((block.o, block.ffn_out) for block, _ in layers)),
        readers=(
            *chain.from_iterable(maps for block, _ in layers for maps in _readers(block)),
            *(head for head in heads if not any(head.weight is table for table in tables)),
        ),
        norms=(*norms, *chain.from_iterable(_norms(block, places, told) for block, places in layers)),
        last_norm=Norm(model, told.last_norm) if told.last_norm and tied else None,
    )


def _each_once(blocks: Sequence[Block]) -> list[tuple[Block, tuple[int, ...]]]:
    """Each layer with the positions at which it runs."""
    found: dict[nn.Module, tuple[Block, tuple[int, ...]]] = {}
    for place, block in enumerate(blocks):
        first, places = found.get(block.module, (block, ()))
        found[block.module] = (first, (*places, place))
    return list(found.values())


def _tables(
    model: PreTrainedModel, told: Residual, there: Iterable[str]
) -> tuple[tuple[nn.Parameter, ...], list[nn.Module]]:
    """(the parameters, the maps that widen what is looked up in a factored one, which stands in their place)."""
    held = [model.get_submodule(path) for path in told.tables if path in there]
    expanding = [each.expand for each in held if hasattr(each, "expand")]
    return tuple(each.get_parameter("weight") for each in held if not hasattr(each, "expand")), expanding  # type: ignore[return-value]


def _names_tokens_by(model: PreTrainedModel, family: Family, tables: Sequence[nn.Parameter]) -> bool:
    """Whether a language model multiplies what it found by its word embedding."""
    decoder = model.get_output_embeddings()
    table = word_table(model, family)
    return decoder is not None and decoder.weight is table and any(each is table for each in tables)


def _readers(block: Block) -> tuple[tuple[nn.Module, ...], tuple[nn.Module, ...]]:
    """(maps of the attention that read states, those of the feed-forward)."""
    names = block.stack.attention
    paths = (*names.q, *names.kv, *((names.qkv,) if names.qkv else ()))
    return tuple(block.parts(paths)), tuple(block.parts(block.stack.ffn_in))


def _norms(block: Block, places: tuple[int, ...], told: Residual) -> Iterator[Norm]:
    for path, maps in zip(told.layer_norms, _readers(block), strict=True):
        yield Norm(block.module, path, places, maps if told.norm_first else ())
