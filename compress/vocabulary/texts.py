"""What a tokenizer makes of texts: how often each token comes, and how much of it another tokenizer gives as well.

Texts are taken whole, without the separators of the model: what lies beyond its longest input counts too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.errors import InputError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

BATCH = 1000


def open_tokenizer(data: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`; it neither cuts texts nor pads them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def count(tokenizer: Tokenizer, texts: Sequence[str]) -> Counter[str]:
    """Token -> how often it comes in `texts`."""
    counts: Counter[int] = Counter()
    for encoding in _encode(tokenizer, texts):
        counts.update(encoding.ids)
    names = _names(tokenizer)
    return Counter({names[index]: times for index, times in counts.items()})


def uncovered_words(tokenizer: Tokenizer, texts: Sequence[str], unknown: str | None) -> set[str]:
    """The words of those texts in which something is `unknown`, as the model of the tokenizer sees them."""
    words: set[str] = set()
    for text, encoding in zip(texts, _encode(tokenizer, texts), strict=True):
        if unknown in encoding.tokens:
            normal = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
            split = tokenizer.pre_tokenizer.pre_tokenize_str(normal) if tokenizer.pre_tokenizer else [(normal, ())]
            words.update(word for word, _ in split)
    return words


def coverage(before: Tokenizer, after: Tokenizer, texts: Sequence[str]) -> float | None:
    """Share of the tokens `before` makes of `texts` that `after` makes in the same place; None where there are none."""
    same = total = 0
    name_before, name_after = _names(before), _names(after)
    for old, new in zip(_encode(before, texts), _encode(after, texts), strict=True):
        same += (_placed(old, name_before) & _placed(new, name_after)).total()
        total += len(old)
    return same / total if total else None


def share_of(token: str | None, tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Share of `token` among all that `tokenizer` makes of `texts`; 0 where the tokenizer has none such."""
    counts = count(tokenizer, texts)
    return counts[token] / counts.total() if token and counts else 0.0


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not blank; InputError where it is no UTF-8 text."""
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as lines of UTF-8 text ({error})") from None


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Encoding]:
    for start in range(0, len(texts), BATCH):
        yield from tokenizer.encode_batch(list(texts[start : start + BATCH]), add_special_tokens=False)


def _names(tokenizer: Tokenizer) -> dict[int, str]:
    return {index: token for token, index in tokenizer.get_vocab(with_added_tokens=True).items()}


def _placed(encoding: Encoding, names: dict[int, str]) -> Counter[tuple[str, tuple[int, int]]]:
    """Each token with its place in the text. By id: Unigram shows the text itself where a token is unknown."""
    return Counter((names[index], place) for index, place in zip(encoding.ids, encoding.offsets, strict=True))
