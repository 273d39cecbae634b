"""Sentences and trees from the real parser, and what is said where there is none."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_models import context, split

from assay.core.errors import InputError, SettingError
from probe.probe import Probe
from probe.probes.edges import EdgesProbe
from probe.probes.erasure import ErasureProbe
from probe.probes.heads import HeadsProbe
from probe.probes.linear import LinearProbe
from probe.probes.mdl import MdlProbe
from probe.probes.structure import StructureProbe
from probe.probes.tokens import TokensProbe
from probe.probes.trees import TreesProbe
from probe.silver import parser as parsing
from probe.silver.parser import ParsedRows, parsed_rows, pipeline, title
from probe.silver.trees import parser_of, sentences_of

needs_parser = pytest.mark.skipif(not parsing.is_installed(), reason="spaCy and its English pipeline are not installed")
ROWS = ["The dogs chase\n a cat.  It ran away.", "", "Nobody laughs."]


@pytest.fixture(scope="module")
def parsed() -> ParsedRows:
    return ParsedRows(pipeline(), ROWS)


@needs_parser
def test_sentences_stand_in_their_rows_and_have_trees_and_numbers_of_their_own(parsed: ParsedRows) -> None:
    found = parsed.first(10)
    assert [each.text for each in found] == ["The dogs chase a cat.", "It ran away.", "Nobody laughs."]
    assert [each.tree.line for each in found] == [1, 2, 3]
    tree = found[0].tree
    assert tree.words == ("The", "dogs", "chase", "a", "cat", ".")
    assert [found[0].text[slice(*span)] for span in found[0].spans] == list(tree.words)
    assert tree.heads == (1, 2, -1, 4, 2, 2)
    assert (tree.deprel[1], tree.deprel[2], tree.xpos[1], tree.upos[5]) == ("nsubj", "root", "NNS", "PUNCT")
    assert [each.tree.fault for each in found] == [None] * 3


@needs_parser
def test_a_row_is_parsed_once_and_no_further_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    parse = parsing._parsed
    monkeypatch.setattr(
        parsing, "_parsed", lambda meta, rows: (read.append(each) or each for each in parse(meta, rows))
    )
    ctx = context(split(ROWS * 100))
    first = sentences_of("silver", "trees.treebank", ctx, "test", 4)
    again = parsed_rows(ctx, "test", pipeline()).first(4)
    assert [each.tree for each in again] == first
    assert len(read) == 4


@needs_parser
def test_sentences_are_of_the_split_and_those_to_keep() -> None:
    ctx = context(split(["It ran away."]), split(["Nobody laughs."]))
    kept = sentences_of("silver", "structure.train", ctx, "train", 9, lambda tree: "Nobody" in tree.words)
    assert [tree.words for tree in kept] == [("Nobody", "laughs", ".")]
    assert sentences_of("silver", "structure.test", ctx, "test", 9, lambda tree: "Nobody" in tree.words) == []


@needs_parser
@pytest.mark.parametrize(
    "probe",
    [
        TreesProbe(treebank="silver"),
        HeadsProbe(treebank="silver"),
        StructureProbe(train="silver", test="silver"),
        TokensProbe(train="silver", test="silver"),
        EdgesProbe(train="silver", test="silver"),
        LinearProbe(tasks=["length", "tense"]),
        MdlProbe(tasks=["tense"]),
        ErasureProbe(tasks=["tense"]),
    ],
    ids=lambda probe: type(probe).__name__,
)
def test_probes_name_the_parser_and_findings_are_made_anew_with_another(probe: Probe) -> None:
    probe.check()
    assert probe.silver() == title(pipeline())
    assert set(probe.inputs()) == {pipeline()}


def test_without_the_parser_nothing_is_silver(tmp_path: Path) -> None:
    assert LinearProbe(tasks=["length", "word_content"]).silver() is None
    assert LinearProbe(tasks=["length", "word_content"]).inputs() == []
    assert parser_of(None, "trees.conllu") is None


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: TreesProbe(treebank="silver:no_such_pipeline").check(), "trees.treebank: .*pipeline no_such_pipeline"),
        (lambda: TreesProbe(treebank="silver:__main__").check(), "trees.treebank: .*not installed"),
        (lambda: TreesProbe(treebank="silver:").check(), "trees.treebank: silver has no name after the colon"),
        (lambda: TreesProbe(treebank="silver:../folder").check(), "trees.treebank: .*not installed"),
        (lambda: TokensProbe(train="silver", test="silver", tags="last_column").check(), "tokens.tags: last_column"),
    ],
)
@needs_parser
def test_a_source_that_is_none_is_told_before_any_training(ask: Callable[[], Any], told: str) -> None:
    with pytest.raises(SettingError, match=told):
        ask()


def test_a_missing_parser_is_one_line_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "find_spec", lambda name: None)
    with pytest.raises(
        SettingError, match=r"structure\.train: silver needs a parser, and spaCy is not installed: pip install spacy "
    ):
        StructureProbe(train="silver", test="silver").check()
    with pytest.raises(InputError, match=r"linear\.tasks: tense needs a parser, and spaCy is not installed: pip"):
        LinearProbe(tasks=["tense"]).check()


def test_a_parse_that_broke_stays_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(meta: Path, rows: object) -> Iterator[str]:
        yield "a sentence"
        raise MemoryError("no more")

    monkeypatch.setattr(parsing, "_parsed", breaks)
    rows = ParsedRows(Path("meta.json"), [])
    for _ in range(2):
        assert rows.first(1) == ["a sentence"]
        with pytest.raises(MemoryError, match="no more"):
            rows.first(2)


@pytest.mark.parametrize(
    "meta", ["{}", "[1]", "no json", '{"lang": "en", "name": "x", "version": "1", "pipeline": ["ner"]}']
)
def test_a_package_that_is_no_parser_is_one_line(meta: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("spacy")
    (tmp_path / "made_up" / "data").mkdir(parents=True)
    (tmp_path / "made_up" / "__init__.py").touch()
    (tmp_path / "made_up" / "data" / "meta.json").write_text(meta)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError, match=r"silver needs a parser, and .*(is of no spaCy pipeline|en_x 1 has none)$"):
        TreesProbe(treebank="silver:made_up").check()


@needs_parser
def test_a_sentence_cut_within_its_tree_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = parsing._load(pipeline())
    cut = parser.add_pipe("sentencizer", config={"overwrite": True, "punct_chars": [",", "."]})
    try:
        found = ParsedRows(pipeline(), ["When dogs bark , cats run away .", "It rains ."]).first(9)
    finally:
        parser.remove_pipe("sentencizer")
    assert cut is not None
    assert [each.text for each in found][-1] == "It rains ."
    assert all(each.tree.fault is None for each in found)
    assert "When dogs bark ," not in [each.text for each in found]


@needs_parser
def test_test_sentences_are_none_of_those_in_training() -> None:
    ctx = context(split(["It rains. Dogs bark."]), split(["Dogs bark.", "It rains today."]))
    probe = StructureProbe(train="silver", test="silver")
    train, test = probe.sentences(ctx)
    assert sorted(each.words[0] for each in train) == ["Dogs", "It"]
    assert [each.words for each in test] == [("It", "rains", ".")]
