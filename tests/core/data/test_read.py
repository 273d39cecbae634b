from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.data.read import Rows, name_of, read_rows
from assay.core.data.settings import DataSettings
from assay.core.errors import InputError


def read(path: Path, **settings: Any) -> Rows:
    return read_rows(str(path), DataSettings(source=str(path), **settings))


def csv(tmp_path: Path, *rows: str, header: str = "text,label,source") -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("cell", "name"),
    [(1, "1"), ("1", "1"), (1.0, "1"), (1.5, "1.5"), (-1, "-1"), (True, "true"), (" pos ", "pos")]
    + [(word, word) for word in ("null", "NA", "None", "nan", "n/a")]
    + [(None, ""), (float("nan"), ""), ("", ""), (" ", "")],
)
def test_cells_become_names(cell: object, name: str) -> None:
    assert name_of(cell) == name


def test_rows_keep_their_number_in_the_file(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,0,imdb", "b,1,rt", "c,0,imdb", "d,1,rt")
    rows = read(path, where={"source": "rt"})
    assert (rows.texts, rows.cells, rows.numbers, rows.seen) == (["b", "d"], [("1",), ("1",)], [2, 4], 4)


def test_where_compares_by_name_and_takes_lists(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,0,x", "b,1,y", "c,2,x")
    assert read(path, where={"label": 1}).texts == ["b"]
    assert read(path, where={"label": [0, "2"], "source": "x"}).texts == ["a", "c"]


def test_where_that_keeps_nothing_shows_what_the_column_holds(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,0,imdb", "b,1,rotten_tomatoes", "c,1,imdb")
    with pytest.raises(InputError, match=r"keeps none of 3 rows; column 'source' holds 'imdb', 'rotten_tomatoes'$"):
        read(path, where={"source": "rotten"})
    many = csv(tmp_path, *(f"a,0,s{i}" for i in range(50)))
    with pytest.raises(InputError, match=r"'s0', .*'s11', \.\.\.$"):
        read(many, where={"source": "x"})


def test_where_on_a_missing_column(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'sourc'; did you mean 'source'"):
        read(csv(tmp_path, "a,0,x"), where={"sourc": "x"})


def test_only_the_empty_label_is_empty(tmp_path: Path) -> None:
    path = csv(tmp_path, "null,None,x", "NA,null,x", "fine,,x", "nan,NA,x")
    with pytest.raises(InputError, match=r"rows\.csv: row 3: column 'label' is empty; .*'skip'"):
        read(path)
    rows = read(path, empty="skip")
    assert (rows.texts, rows.skipped) == (["null", "NA", "nan"], 1)
    assert rows.cells == [("None",), ("null",), ("NA",)]


def test_missing_text_is_empty_but_a_text_of_nothing_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    items = [{"text": "", "label": 1}, {"text": " \t\n", "label": 0}, {"text": None, "label": 1}, {"label": 1}]
    path.write_text("\n".join(map(json.dumps, items)))
    with pytest.raises(InputError, match="row 3: column 'text' is empty"):
        read(path)
    rows = read(path, empty="skip")
    assert (rows.texts, rows.skipped) == (["", " \t\n"], 2)


def test_empty_cells_of_rows_that_where_drops_do_not_matter(tmp_path: Path) -> None:
    assert read(csv(tmp_path, "a,,x", "b,1,y"), where={"source": "y"}).numbers == [2]


def test_text_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": 1}\n{"text": ["b"], "label": 1}\n')
    with pytest.raises(InputError, match=r"row 2: column 'text' holds \['b'\], which is not text"):
        read(path)


@pytest.mark.parametrize(("cell", "shown"), [('["x"]', r"\['x'\]"), ('{"x": 1}', r"\{'x': 1\}"), ("[]", r"\[\]")])
def test_a_label_of_several_values_is_no_label(tmp_path: Path, cell: str, shown: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"text": "a", "label": "x"}}\n{{"text": "b", "label": {cell}}}\n')
    for label in ("label", ["label"]):
        with pytest.raises(InputError, match=rf"row 2: column 'label' holds {shown}; .* 0/1 column a class"):
            read(path, label=label)


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has columns but no rows"):
        read(csv(tmp_path))
    with pytest.raises(InputError, match="all 2 rows have an empty label"):
        read(csv(tmp_path, "a,,x", "b,,x"), empty="skip")
