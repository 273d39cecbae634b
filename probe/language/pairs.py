"""Minimal pairs from files in the format of BLiMP (https://github.com/alexwarstadt/blimp): JSONL with `sentence_good`,
`sentence_bad`, `UID` and `field`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from assay.core.errors import InputError
from probe.language.json_lines import numbered_objects, text_in
from probe.language.paradigms import Pair
from probe.numbered_lines import malformed


def read_pairs(paths: Iterable[Path]) -> list[Pair]:
    """All pairs of the files. A paradigm is called by its `UID`, or as its file without the ending.

    InputError with file and line where a sentence is missing or both are the same, and where there is no pair."""
    paths = list(paths)
    pairs = [pair for path in paths for pair in _pairs(path)]
    if not pairs:
        raise InputError(f"{', '.join(map(str, paths))}: no pair; a line holds sentence_good and sentence_bad")
    return pairs


def _pairs(path: Path) -> Iterable[Pair]:
    for number, item in numbered_objects(path):
        good, bad = (text_in(item, (f"sentence_{kind}",)) for kind in ("good", "bad"))
        if good is None or bad is None:
            absent = "sentence_good" if good is None else "sentence_bad"
            raise malformed(path, number, f"no text in {absent}; a pair holds sentence_good and sentence_bad")
        if good == bad:
            raise malformed(path, number, f"both sentences are {good!r}; one must be ungrammatical")
        yield Pair(text_in(item, ("UID",)) or path.stem, text_in(item, ("field",)) or "", good, bad)
