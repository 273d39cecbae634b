import pytest

from probe.word_spans import fold, is_unspaced, replace_words, word_spans


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I can't, well-made!", ["I", "can't", "well-made"]),
        ("It doesn’t 'quote' rock-'n'-roll", ["It", "doesn’t", "quote", "rock", "n", "roll"]),
        ("a--b c- -d", ["a", "b", "c", "d"]),
        ("cafe\u0301 naïve Straße", ["cafe\u0301", "naïve", "Straße"]),
        ("mp3 2nd 1990", ["mp3", "2nd", "1990"]),
        ("هذا فيلم جيد", ["هذا", "فيلم", "جيد"]),
        ("हिन्दी फिल्म", ["हिन्दी", "फिल्म"]),
        ("这部电影很好看", ["这部电影很好看"]),
        (">>>>> >>>>", []),
        ("🎬 ❤️ \u200b \t\n", []),
        ("", []),
    ],
)
def test_words_are_whole_in_every_script(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("word", "unspaced"), [("电影", True), ("えいが", True), ("ภาพยนตร์", True), ("film", False), ("فيلم", False)]
)
def test_unspaced_scripts_are_told_from_spaced_ones(word: str, unspaced: bool) -> None:
    assert is_unspaced(word) is unspaced


def test_replacing_words_leaves_every_other_character_alone() -> None:
    text = "\tOne,  two…three 🎬\r\n four "
    spans = word_spans(text)
    assert replace_words(text, spans, {3: "4", 1: "zwei"}) == "\tOne,  zwei…three 🎬\r\n 4 "
    assert replace_words(text, spans, {}) == text


def test_folding_ignores_case_and_apostrophe_shape() -> None:
    assert fold("CAN’T") == fold("can't") != fold("cant")
