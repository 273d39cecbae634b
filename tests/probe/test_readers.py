"""CoNLL-U, columns and SentEval files: what is read, and how a bad line is told of."""

from pathlib import Path

import pytest

from assay.core.errors import InputError, SettingError
from probe.labelled_texts import read_labelled_texts
from probe.numbered_lines import setting_file
from probe.tagged_words import TaggedSentence, read_tagged
from probe.treebank import read_treebank

FILES = Path(__file__).parent / "files"


def row(number: str, form: str, head: str, relation: str = "dep", upos: str = "X") -> str:
    return "\t".join([number, form, "_", upos, "XP", "_", head, relation, "_", "_"])


GOOD = [
    "# text = don't go",
    row("1-2", "don't", "_"),
    row("1", "do", "3", "aux", "AUX"),
    row("2", "n't", "3", "advmod", "PART"),
    row("2.1", "ever", "_"),
    row("3", "go", "0", "root", "VERB"),
    "",
    row("1", "10 000\u2028", "0", "root", "NUM"),
]


def written(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_bytes(end.join(lines).encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_treebank_is_read_without_ranges_and_empty_nodes_which_are_counted(tmp_path: Path, end: str) -> None:
    """Also without a blank line at the end, with a byte order mark, and with spaces in a word."""
    found = read_treebank(written(tmp_path / "a.conllu", "\ufeff# first", *GOOD, end=end), trees=True)
    first, second = found.sentences
    assert (found.ranges, found.empty_nodes) == (1, 1)
    assert (first.words, first.upos, first.deprel) == (
        ("do", "n't", "go"),
        ("AUX", "PART", "VERB"),
        ("aux", "advmod", "root"),
    )
    assert (first.heads, first.depths, first.xpos) == ((2, 2, -1), (1, 1, 0), ("XP",) * 3)
    assert second.words == ("10 000\u2028",)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("1\tword\tonly", "3 columns parted by tabs, CoNLL-U has 10"),
        (row("7", "go", "0"), "ID is 7, the next word of the sentence is 3"),
        (row("x", "go", "0"), "ID is x"),
        (row("3", "", "0"), "FORM is empty"),
        (row("3", "go", "zero"), "HEAD is 'zero'; it must be the ID of a word, 0 or _"),
        (row("3", "go", "9"), "HEAD is 9, the sentence has 3 words"),
        (row("3", "go", "3"), "HEAD is 3, the word itself"),
    ],
)
def test_a_malformed_line_is_told_with_its_number(tmp_path: Path, bad: str, told: str) -> None:
    path = written(tmp_path / "a.conllu", *GOOD[:5], bad, "")
    with pytest.raises(InputError) as caught:
        read_treebank(path)
    assert str(caught.value).startswith(f"{path}:6: ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("heads", "told"),
    [("230", "lead in a circle"), ("003", "2 words have HEAD 0, one must"), ("_30", "word 1 has no HEAD")],
)
def test_heads_that_are_no_tree_are_refused_where_a_tree_is_needed(tmp_path: Path, heads: str, told: str) -> None:
    heads = {"230": "210", "003": "001"}.get(heads, heads)
    rows = [row(str(at), "w", head) for at, head in enumerate(heads, 1)]
    path = written(tmp_path / "a.conllu", *GOOD[-1:], "", *rows)
    assert len(read_treebank(path).sentences) == 2
    with pytest.raises(InputError, match=told) as caught:
        read_treebank(path, trees=True)
    assert str(caught.value).startswith(f"{path}:3: ")


@pytest.mark.parametrize("between", ["\t", " "])
def test_columns_give_the_first_and_the_last(tmp_path: Path, between: str) -> None:
    lines = ["-DOCSTART- -X- O", "", "Paris NNP B-LOC", "sleeps VBZ O", "", "", "It PRP O"]
    path = written(tmp_path / "a.bio", *(line.replace(" ", between) for line in lines))
    assert read_tagged(path, "last_column") == [
        TaggedSentence(("Paris", "sleeps"), ("B-LOC", "O")),
        TaggedSentence(("It",), ("O",)),
    ]


@pytest.mark.parametrize(
    ("bad", "told"),
    [("alone", "'alone' alone; a line has a word and its tag"), ("a b c", "3 columns, the lines before")],
)
def test_a_bad_line_of_columns_is_told_with_its_number(tmp_path: Path, bad: str, told: str) -> None:
    path = written(tmp_path / "a.bio", "It O", "is O", bad)
    with pytest.raises(InputError) as caught:
        read_tagged(path, "last_column")
    assert str(caught.value).startswith(f"{path}:3: ")
    assert told in str(caught.value)


def test_a_column_without_any_tag_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conllu", row("1", "word", "_", "_", "_"))
    assert read_tagged(path, "xpos") == [TaggedSentence(("word",), ("XP",))]
    with pytest.raises(InputError, match="no word has a tag in upos"):
        read_tagged(path, "upos")


def test_senteval_rows_go_to_their_splits_and_labels_are_numbered_over_all(tmp_path: Path) -> None:
    path = written(tmp_path / "t.txt", "tr\tb\tOne text .", "te\ta\tAnother .", "va\tc\tA third .", "tr\ta\tLast .", "")
    found = read_labelled_texts(path)
    assert (found["train"].texts, found["train"].labels.tolist()) == (["One text .", "Last ."], [1, 0])
    assert (found["test"].labels.tolist(), found["validation"].labels.tolist()) == ([0], [2])


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("tr\tno text", "2 columns parted by tabs, there are 3"),
        ("dev\ta\ttext", "split is 'dev'; it is one of tr, va, te"),
        ("tr\ta\t ", "the label or the text is empty"),
    ],
)
def test_a_bad_senteval_line_is_told_with_its_number(tmp_path: Path, bad: str, told: str) -> None:
    path = written(tmp_path / "t.txt", "tr\ta\tfine", bad)
    with pytest.raises(InputError) as caught:
        read_labelled_texts(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert told in str(caught.value)


@pytest.mark.parametrize("read", [read_treebank, lambda path: read_tagged(path, "last_column"), read_labelled_texts])
def test_empty_files_and_other_encodings_are_refused(tmp_path: Path, read: object) -> None:
    assert callable(read)
    with pytest.raises(InputError, match="no "):
        read(written(tmp_path / "empty", ""))
    (tmp_path / "latin").write_bytes(b"# fine\n\xe9t\xe9\tO\n")
    with pytest.raises(InputError, match=r"latin:[12]: "):
        read(tmp_path / "latin")


def test_a_setting_that_names_no_file_says_which(tmp_path: Path) -> None:
    for address, told in ((str(tmp_path / "no.conllu"), "no such file"), (str(tmp_path), "is a folder")):
        with pytest.raises(SettingError, match=told) as caught:
            setting_file(address, "tokens.train")
        assert caught.value.setting == "tokens.train"


def test_the_made_up_files_are_whole() -> None:
    found = read_treebank(FILES / "train.conllu", trees=True)
    assert (len(found.sentences), found.ranges, found.empty_nodes) == (40, 1, 1)
