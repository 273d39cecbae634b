from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from assay.core.data.tables import open_table
from assay.core.errors import InputError


def cells(path: Path | str, columns: list[str] | None = None, **settings: Any) -> list[tuple[Any, ...]]:
    table = open_table(str(path), **settings)
    return list(table.read(columns or table.columns))


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_byte_order_mark_quoted_header_crlf_and_quoted_newline(tmp_path: Path) -> None:
    cell = 'one,\r\ntwo "three"'
    quoted = cell.replace('"', '""')
    path = write(tmp_path / "a.csv", f'\ufeff"text","label"\r\n"{quoted}","1"\r\nplain,0\r\n')
    assert open_table(str(path)).columns == ["text", "label"]
    assert cells(path) == [(cell, "1"), ("plain", "0")]


def test_words_for_missing_values_stay_as_typed(tmp_path: Path) -> None:
    words = ["null", "NA", "None", "nan", "n/a", ""]
    path = write(tmp_path / "a.csv", "text,label\n" + "".join(f"{word},None\n" for word in words))
    assert cells(path) == [(word, "None") for word in words]


def test_lone_quote_in_tab_separated_text_is_a_character(tmp_path: Path) -> None:
    lines = ["first\t0", '"second\t1', "third\t0", 'fo"urth\t1', "fifth\t0", "sixth\t1"]
    path = write(tmp_path / "a.tsv", "\n".join(["text\tlabel", *lines]))
    assert cells(path) == [tuple(line.split("\t")) for line in lines]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (["first,0", '"second,1', "third,0"], 3),  # never closed: the end of the file comes first
        (["first,0", "third,0", '"second,1', "x,0", '"fourth,0'], 4),  # closed by the next lone quote
        (['"a\nb",0', '"second" is,1', "third,0"], 4),  # a cell goes on after its quote
    ],
)
def test_unbalanced_quote_in_csv_names_its_line(tmp_path: Path, rows: list[str], line: int) -> None:
    path = write(tmp_path / "a.csv", "\n".join(["text,label", *rows]) + "\n")
    with pytest.raises(InputError, match=rf"a\.csv: the row that starts at line {line} cannot be read .*quote"):
        cells(path)


def test_not_utf8_names_the_byte(tmp_path: Path) -> None:
    start = b"text,label\n" + b"fine,1\n" * 20_000  # beyond the decoder's buffer
    path = write(tmp_path / "a.csv", start + b"caf\xe9,1\n")
    with pytest.raises(InputError, match=rf"not UTF-8 at byte {len(start) + 3};"):
        cells(path)


def test_row_of_another_width_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,label\nfine,1\nan unquoted, comma,1\n")
    with pytest.raises(InputError, match="row 2 has 3 cells, the header has 2"):
        cells(path)


def test_cell_as_long_as_a_book(tmp_path: Path) -> None:
    book = "word, " * 100_000
    assert cells(write(tmp_path / "a.csv", f'text,label\n"{book}",1\n')) == [(book, "1")]


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    assert cells(write(tmp_path / "a.csv", "text,label\n\na,1\n\nb,0\n\n")) == [("a", "1"), ("b", "0")]


def test_delimiter_setting(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", 'text;label\n"a;b";1\n')
    assert cells(path, delimiter=";") == [("a;b", "1")]
    with pytest.raises(InputError, match=r"unknown ending '.txt'; use .csv, .tsv, .jsonl or .parquet, or set"):
        open_table(str(path))


def test_json_lines_keep_types_and_find_late_columns(tmp_path: Path) -> None:
    items = [{"text": "a", "label": 1}, {"text": "null", "label": "1", "more": True}, {"text": None, "label": 1.5}]
    path = write(tmp_path / "a.jsonl", "\n\n".join(map(json.dumps, items)))
    assert cells(path, ["more", "label", "text"]) == [(None, 1, "a"), (True, "1", "null"), (None, 1.5, None)]


@pytest.mark.parametrize(("line", "why"), [('{"text": ', "JSON"), ("[1]", "object"), ('{"text": "\\ud800"}', "JSON")])
def test_broken_json_line_names_its_number(tmp_path: Path, line: str, why: str) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "fine"}\n\n' + line + "\n")
    with pytest.raises(InputError, match=rf"a\.jsonl: line 3 is not .*{why}"):
        cells(path)


def test_parquet_gives_chosen_columns_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame({"label": [1, 0], "text": ["NA", None], "more": [0.5, 1.5]}).to_parquet(path)
    assert cells(path, ["text", "label", "text"]) == [("NA", 1, "NA"), (None, 0, None)]


def test_parquet_that_was_cut_off(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.parquet: not a whole Parquet file of 9 bytes"):
        open_table(str(write(tmp_path / "a.parquet", b"PAR1 and ")))


def test_hub_dataset_gives_class_names_and_hidden_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"]))

    def load(*where: object, **settings: object) -> datasets.Dataset:
        asked.append((*where, settings["split"]))
        return datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, features=features)

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert cells("hf:org/name:config@test", ["text", "label"]) == [("a", "good"), ("b", "bad"), ("c", -1)]
    assert cells("hf:name", ["label"]) == [("good",), ("bad",), (-1,)]
    assert asked == [("org/name", "config", "test"), ("name", None, "train")]


def test_missing_column_names_the_nearest_and_the_list(tmp_path: Path) -> None:
    table = open_table(str(write(tmp_path / "a.csv", "text,labels\na,1\n")))
    with pytest.raises(InputError, match=r"no column 'label'; did you mean 'labels'\? \(columns: 'text', 'labels'\)"):
        table.require(["text", "label"])
    with pytest.raises(InputError, match="no column 'y'; available: text, labels"):
        table.require(["y"])


def test_a_wanted_column_that_is_there_twice(tmp_path: Path) -> None:
    table = open_table(str(write(tmp_path / "a.csv", "text,label,text\na,1,b\n")))
    table.require(["label"])
    with pytest.raises(InputError, match="2 columns are named 'text'"):
        table.require(["text"])


def test_empty_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.csv: the file is empty \(0 bytes\)"):
        open_table(str(write(tmp_path / "a.csv", "")))
    with pytest.raises(InputError, match="the file holds no header"):
        open_table(str(write(tmp_path / "b.csv", "\n\n")))
    with pytest.raises(InputError, match="is a folder"):
        open_table(str(tmp_path))
    os.mkfifo(tmp_path / "pipe.csv")
    for path in ("/dev/null", str(tmp_path / "pipe.csv")):
        with pytest.raises(InputError, match=rf"^{path}: is a device, pipe or socket; a file of rows is needed$"):
            open_table(path)
