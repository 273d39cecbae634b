"""Which of some words a text has (Conneau et al. 2018). The paper takes a thousand words, of ranks 2,000 to 3,000 of a
large corpus; here it is the 20 neighbours in rank that give the most rows, so that few of them stand together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from probe.balance import Item, balanced
from probe.tasks import Task
from probe.word_spans import fold, word_spans

WORDS = 20
STEP = 5  # ranks from one choice of words to the next
MOST_ROWS = 10_000  # read of each split

Held = Sequence[frozenset[str]]  # the words of each row


def word_content_task(
    train: Sequence[str], test: Sequence[str], samples: int, test_samples: int, seed: int, max_words: int
) -> Task:
    """Rows with one and only one of the words among their first `max_words`, as many with each."""
    held, held_test = ([_words(text, max_words) for text in part[:MOST_ROWS]] for part in (train, test))
    words = _chosen(held, held_test, samples, test_samples)
    rows = balanced(_items(train, held, words), words, samples, seed)
    return Task("word_content", rows, balanced(_items(test, held_test, words), words, test_samples, seed))


def _words(text: str, most: int) -> frozenset[str]:
    return frozenset(fold(text[start:end]) for start, end in word_spans(text)[:most])


def _chosen(train: Held, test: Held, samples: int, test_samples: int) -> list[str]:
    """The words by which the split that is shorter of rows has most of what is asked for."""
    counts = Counter(word for words in train for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    if not ranked:
        return []
    choices = [ranked[start : start + WORDS] for start in range(0, max(1, len(ranked) - WORDS + 1), STEP)]
    asked = [(_places(train), samples)] + [(_places(test), test_samples)] * bool(test_samples)
    return max(choices, key=lambda words: min(_fewest(part, words) / count for part, count in asked))


def _places(held: Held) -> dict[str, list[int]]:
    """Word -> the rows that have it."""
    places: dict[str, list[int]] = {}
    for row, words in enumerate(held):
        for word in words:
            places.setdefault(word, []).append(row)
    return places


def _fewest(places: dict[str, list[int]], words: Sequence[str]) -> int:
    """Rows of the rarest of the words, those with another of them left out."""
    times = Counter(row for word in words for row in places.get(word, ()))
    return min(sum(times[row] == 1 for row in places.get(word, ())) for word in words)


def _items(texts: Sequence[str], held: Held, words: Sequence[str]) -> Iterator[Item]:
    wanted = frozenset(words)
    for text, own in zip(texts, held, strict=False):
        if len(there := own & wanted) == 1:
            yield Item(text, next(iter(there)))
