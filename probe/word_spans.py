"""Where the words of a text are.

A word is a run of Unicode letters and digits; an apostrophe (straight or curly) or a hyphen between two of them belongs
to it, so `can't` and `well-made` stay whole. Marks such as accents belong to the letter before them. Text written
without spaces (Chinese, Japanese, Thai, ...) comes out as one long run, which `is_unspaced` tells.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

Span = tuple[int, int]

APOSTROPHES = "'’"
JOINERS = APOSTROPHES + "-‐‑"
UNSPACED_SCRIPTS = frozenset({"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"})
_WORD = re.compile(r"[LN][LNM]*(?:j[LN][LNM]*)*")


def word_spans(text: str) -> list[Span]:
    """(start, end) of each word, in order; empty for blank text, symbols and emoji."""
    shape = "".join(_kind(character) for character in text)
    return [match.span() for match in _WORD.finditer(shape)]


def _kind(character: str) -> str:
    return "j" if character in JOINERS else unicodedata.category(character)[0]


def is_unspaced(word: str) -> bool:
    """True when a character belongs to a script that puts no spaces between words."""
    return any(UNSPACED_SCRIPTS & set(unicodedata.name(character, "").split()) for character in word)


def fold(word: str) -> str:
    """The form in which two words count as the same: without case, all apostrophes straight."""
    return word.replace("’", "'").casefold()


def replace_words(text: str, spans: Sequence[Span], replacements: Mapping[int, str]) -> str:
    """`text` with the words at these positions of `spans` replaced; every other character stays as it is."""
    pieces, end = [], 0
    for index in sorted(replacements):
        pieces += [text[end : spans[index][0]], replacements[index]]
        end = spans[index][1]
    return "".join([*pieces, text[end:]])
