from random import Random

import pytest

from probe.edit_characters import NEIGHBOURS, edit_candidates, is_editable


def kind(word: str, edited: str) -> str:
    if len(edited) != len(word):
        return "delete" if len(edited) < len(word) else "insert"
    return "swap" if sorted(edited) == sorted(word) else "replace"


def test_one_candidate_of_each_kind() -> None:
    kinds = [kind("wonderful", edited) for edited in edit_candidates("wonderful", Random(1))]
    assert kinds == ["swap", "delete", "insert", "replace"]


@pytest.mark.parametrize("word", ["film", "Wonderful", "can't", "well-made", "doesn’t", "фильм", "جميلة"])
def test_edits_change_the_word_but_not_its_first_and_last_letter_nor_its_joiners(word: str) -> None:
    for seed in range(50):
        for edited in edit_candidates(word, Random(seed)):
            assert edited != word
            assert (edited[0], edited[-1]) == (word[0], word[-1])
            assert [c for c in edited if not c.isalpha()] == [c for c in word if not c.isalpha()]


def test_replaced_letters_come_from_the_keyboard_and_keep_their_case() -> None:
    assert set(NEIGHBOURS["s"]) == set("adwezx")
    assert "p" not in NEIGHBOURS["q"]
    replaced = {edit_candidates("MXSM", Random(seed))[-1] for seed in range(80)}
    at_x = {f"M{key.upper()}SM" for key in NEIGHBOURS["x"]}
    assert replaced <= at_x | {f"MX{key.upper()}M" for key in NEIGHBOURS["s"]}
    assert len(replaced) > 6


def test_letters_off_the_keyboard_are_only_swapped_and_left_out() -> None:
    assert [kind("фильм", edited) for edited in edit_candidates("фильм", Random(0))] == ["swap", "delete"]


def test_the_same_seed_gives_the_same_typos_and_another_seed_others() -> None:
    typos = [edit_candidates("unforgettable", Random(seed)) for seed in (1, 1, 2)]
    assert typos[0] == typos[1] != typos[2]


@pytest.mark.parametrize("word", ["a", "bad", "mp3s", "1990", "这部电影很好看", "I'm", ""])
def test_short_numbered_and_unspaced_words_are_left_alone(word: str) -> None:
    assert not is_editable(word)


def test_four_letters_are_enough() -> None:
    assert is_editable("good")
    assert is_editable("can't")
