"""Tables on disk or on the hub as a stream of rows: CSV, TSV, JSONL, Parquet, `hf:` datasets.

Cells come as the file has them: `null`, `NA` and `None` in a CSV are text. No row is lost in silence: a quote that does
not close, a row of the wrong width, a line that is not JSON and bytes that are not UTF-8 are errors with their place.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from assay.core.address import HUB, resolve
from assay.core.errors import InputError
from assay.core.plugins import nearest

DELIMITERS = {".csv": ",", ".tsv": "\t"}
HEAD = 100  # JSON lines looked at to learn the columns
BATCH = 4096  # rows a Parquet or hub batch holds
csv.field_size_limit(2**24)  # characters of a cell: whole books, but not the rest of a large file after a lone quote


@dataclass(frozen=True)
class Table:
    """`read(columns)` yields one tuple of cells a row, streamed; a table can be read once."""

    name: str
    columns: list[str]
    read: Callable[[Sequence[str]], Iterator[tuple[Any, ...]]]

    def require(self, columns: Sequence[str]) -> None:
        """Raise InputError for the first column that is missing or there twice."""
        for column in columns:
            if column not in self.columns:
                listed = ", ".join(map(repr, self.columns))
                hint = nearest(column, self.columns)
                found = "" if hint.startswith("; available") else f" (columns: {listed})"
                raise InputError(f"{self.name}: no column {column!r}{hint}{found}")
            if self.columns.count(column) > 1:
                raise InputError(f"{self.name}: {self.columns.count(column)} columns are named {column!r}")


def open_table(address: str, delimiter: str | None = None) -> Table:
    """The table at `address`; its format follows the file ending unless `delimiter` makes it a delimited text."""
    if address.startswith(HUB):
        return _open_hub(address)
    path = resolve(address)
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a device, pipe or socket"
        raise InputError(f"{address}: is {kind}; a file of rows is needed")
    if path.stat().st_size == 0:
        raise InputError(f"{address}: the file is empty (0 bytes)")
    ending = path.suffix.lower()
    if delimiter or ending in DELIMITERS:
        return _open_delimited(address, path, delimiter or DELIMITERS[ending])
    if ending in (".jsonl", ".ndjson"):
        return _open_json_lines(address, path)
    if ending in (".parquet", ".pq"):
        return _open_parquet(address, path)
    raise InputError(f"{address}: unknown ending {ending!r}; use .csv, .tsv, .jsonl or .parquet, or set `delimiter`")


def _lines(name: str, path: Path) -> Iterator[str]:
    """Lines with their ends as they are; a byte-order mark is left out."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {_bad_byte(path)}; save the file as UTF-8") from error


def _bad_byte(path: Path) -> int:
    """Offset in the file of the first byte that is not UTF-8 (the decoder's own offset is within its buffer)."""
    offset = 0
    with path.open("rb") as file:
        for line in file:
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return offset + error.start
            offset += len(line)
    raise AssertionError(f"{path} is UTF-8 after all")


def _open_delimited(name: str, path: Path, delimiter: str) -> Table:
    records = _records(name, path, delimiter)
    header = next(records, None)
    if header is None:
        raise InputError(f"{name}: the file holds no header")

    def read(columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        places = [header.index(column) for column in columns]
        for number, record in enumerate(records, 1):
            if len(record) != len(header):
                raise InputError(f"{name}: row {number} has {len(record)} cells, the header has {len(header)}")
            yield tuple(record[place] for place in places)

    return Table(name, header, read)


def _records(name: str, path: Path, delimiter: str) -> Iterator[list[str]]:
    """Records of a delimited text, blank lines left out. Tab-separated text has no quoting: a quote is a character."""
    reader = csv.reader(
        _lines(name, path),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
        strict=True,
    )
    line = 1
    try:
        for record in reader:
            if record:
                yield record
            line = reader.line_num + 1
    except csv.Error as error:
        advice = "a quote there does not close where its cell ends; double it inside a quoted cell"
        raise InputError(f"{name}: the row that starts at line {line} cannot be read ({error}): {advice}") from error


def _open_json_lines(name: str, path: Path) -> Table:
    objects = _objects(name, path)
    head = list(islice(objects, HEAD))
    columns = list(dict.fromkeys(key for item in head for key in item))

    def read(columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        return (tuple(item.get(column) for column in columns) for item in chain(head, objects))

    return Table(name, columns, read)


def _objects(name: str, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_lines(name, path), 1):
        if line.isspace():
            continue
        try:
            item = json.loads(line)
            line.encode() if "\\ud" not in line.lower() else json.dumps(item, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise InputError(f"{name}: line {number} is not valid JSON ({error})") from error
        if not isinstance(item, dict):
            raise InputError(f"{name}: line {number} is not a JSON object {{column: value}}")
        yield item


def _open_parquet(name: str, path: Path) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{name}: not a whole Parquet file of {path.stat().st_size} bytes ({error})") from error

    def read(columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        try:
            for batch in file.iter_batches(batch_size=BATCH, columns=list(dict.fromkeys(columns))):
                yield from zip(*(batch.column(column).to_pylist() for column in columns), strict=True)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}: a damaged Parquet file ({error})") from error

    return Table(name, file.schema_arrow.names, read)


def _open_hub(address: str) -> Table:
    """`hf:org/name[:config][@split]`, split `train` by default; class numbers come as the dataset's class names."""
    import datasets

    place, _, split = address.removeprefix(HUB).partition("@")
    name, _, config = place.partition(":")
    try:
        data = datasets.load_dataset(name, config or None, split=split or "train")
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise InputError(f"{address}: cannot be loaded ({str(error).strip().partition(chr(10))[0]})") from error

    def read(columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for batch in data.select_columns(list(dict.fromkeys(columns))).iter(BATCH):
            yield from zip(*(_named(batch[column], data.features[column]) for column in columns), strict=True)

    return Table(address, data.column_names, read)


def _named(cells: list[Any], feature: Any) -> list[Any]:
    if not hasattr(feature, "int2str"):
        return cells
    return [cell if cell is None or cell < 0 else feature.int2str(cell) for cell in cells]
