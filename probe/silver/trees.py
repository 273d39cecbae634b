"""Where a probe's trees or tags come from: a file that the user has, or the parser, asked for as `silver`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.errors import InputError, SettingError
from probe.balance import SplitName
from probe.numbered_lines import setting_file
from probe.silver.parser import parsed_rows, pipeline, title
from probe.tagged_words import drawn
from probe.treebank import Sentence, read_treebank

if TYPE_CHECKING:
    from probe.probe import ProbeContext

SILVER = "silver"


def is_silver(address: str) -> bool:
    """Whether a setting asks for the parser: `silver`, or `silver:` and the name of a spaCy pipeline."""
    return address.partition(":")[0] == SILVER


def source_file(address: str, setting: str) -> Path:
    """The file by which a source is known: the treebank, or `meta.json` of the pipeline. SettingError where there is
    none."""
    if not is_silver(address):
        return setting_file(address, setting)
    _, colon, name = address.partition(":")
    try:
        return pipeline(name if colon else None)
    except InputError as error:
        raise SettingError(setting, f"{SILVER} {error}") from None


def parser_of(*addresses: str | None) -> str | None:
    """Name and version of the parser that some of these sources are, None where all are files: what findings tell as
    `silver`."""
    names = [title(source_file(each, SILVER)) for each in addresses if each is not None and is_silver(each)]
    return ", ".join(dict.fromkeys(names)) or None


def sentences_of(
    address: str,
    setting: str,
    ctx: ProbeContext,
    split: SplitName,
    count: int,
    keep: Callable[[Sentence], bool] = lambda _: True,
    trees: bool = False,
    known: Collection[tuple[str, ...]] = (),
) -> list[Sentence]:
    """At most `count` of the sentences to `keep`: drawn from a treebank, or the first that the parser finds in the
    job's rows of that split, shuffled. `trees`: whether the heads in a treebank must form trees.

    known: words of sentences that a parsed one must not be, such as those of training. Raises as `check_source`."""
    path = source_file(address, setting)
    if is_silver(address):
        rows = parsed_rows(ctx, split, path)
        return [each.tree for each in rows.first(count, lambda one: keep(one.tree) and one.tree.words not in known)]
    every = [each for each in read_treebank(path, trees).sentences if keep(each)]
    return [every[at] for at in drawn(len(every), count, ctx.seed)]


def check_source(address: str, setting: str, trees: bool = False) -> None:
    """SettingError or InputError where the file is not there or no treebank, or the parser is not installed."""
    path = source_file(address, setting)
    if not is_silver(address):
        read_treebank(path, trees)
