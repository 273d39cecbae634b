"""Typing errors inside one word (Pruthi et al. 2019, "Combating Adversarial Misspellings").

Four kinds: two adjacent letters swapped, a letter left out, a letter too many, a letter replaced by a neighbour on the
keyboard. First and last letter stay, and words of fewer than four letters are left alone, since readers stop
recognising the word otherwise. The paper inserts any letter; here it is a neighbour of the next one, as a slip of the
finger would give. Letters that are not on a US keyboard are swapped and left out only.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from probe.word_spans import is_unspaced

MIN_LETTERS = 4
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _neighbours() -> dict[str, str]:
    """Letters whose keys touch: side by side, or in the next row half a key to the left or right."""
    place = {key: (row, column + row / 2) for row, keys in enumerate(KEYBOARD) for column, key in enumerate(keys)}

    def touch(a: str, b: str) -> bool:
        (row, column), (other_row, other_column) = place[a], place[b]
        return a != b and abs(row - other_row) <= 1 and abs(column - other_column) <= 1

    return {key: "".join(other for other in place if touch(key, other)) for key in place}


NEIGHBOURS = _neighbours()


def is_editable(word: str) -> bool:
    """True for a spaced-script word of at least four letters and no digit."""
    letters = sum(character.isalpha() for character in word)
    return letters >= MIN_LETTERS and not any(map(str.isnumeric, word)) and not is_unspaced(word)


def edit_candidates(word: str, random: Random) -> list[str]:
    """Up to four misspellings of `word`, one of each kind at a random inner letter, all different from `word`.

    A kind that the word has no place for is left out, e.g. replacing letters that no US keyboard has."""
    kinds = (_swaps(word), _deletions(word), _insertions(word, random), _replacements(word, random))
    drawn = [random.choice(places) for places in map(list, kinds) if places]
    return list(dict.fromkeys(drawn))


def _inner(word: str) -> list[int]:
    letters = [index for index, character in enumerate(word) if character.isalpha()]
    return letters[1:-1]


def _swaps(word: str) -> Iterator[str]:
    inner = set(_inner(word))
    for index in sorted(inner):
        if index + 1 in inner and word[index] != word[index + 1]:
            yield word[:index] + word[index + 1] + word[index] + word[index + 2 :]


def _deletions(word: str) -> Iterator[str]:
    return (word[:index] + word[index + 1 :] for index in _inner(word))


def _insertions(word: str, random: Random) -> Iterator[str]:
    return (word[:index] + slip + word[index:] for index, slip in _slips(word, random))


def _replacements(word: str, random: Random) -> Iterator[str]:
    return (word[:index] + slip + word[index + 1 :] for index, slip in _slips(word, random))


def _slips(word: str, random: Random) -> Iterator[tuple[int, str]]:
    for index in _inner(word):
        if keys := NEIGHBOURS.get(word[index].lower()):
            slip = random.choice(keys)
            yield index, slip.upper() if word[index].isupper() else slip
