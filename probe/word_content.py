"""Which of some words of middle frequency a text has (Conneau et al. 2018). The paper takes a thousand, of the ranks
2,000 to 3,000 of a large corpus; here it is the 20 rarest that stand in enough of the job's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from probe.balance import Item, balanced
from probe.tasks import Task
from probe.word_spans import fold, word_spans

WORDS = 20
MOST_ROWS = 5000  # read of each split
SPARE = 2  # times the rows needed that a word stands in, since rows with two of the words are left out


def word_content_task(
    train: Sequence[str], test: Sequence[str], samples: int, test_samples: int, seed: int, max_words: int
) -> Task:
    """Rows with one and only one of the words among their first `max_words`, as many with each."""
    held, held_test = ([_words(text, max_words) for text in part[:MOST_ROWS]] for part in (train, test))
    words = _chosen(held, held_test, samples, test_samples)
    found, found_test = list(_items(train, held, words)), list(_items(test, held_test, words))
    return Task(
        "word_content",
        balanced(found, words, samples, seed),
        balanced(found_test, words, test_samples, seed),
    )


def _words(text: str, most: int) -> frozenset[str]:
    return frozenset(fold(text[start:end]) for start, end in word_spans(text)[:most])


def _chosen(
    train: Sequence[frozenset[str]], test: Sequence[frozenset[str]], samples: int, test_samples: int
) -> list[str]:
    """The rarest words that stand in enough rows of both."""
    counts, test_counts = (Counter(word for words in part for word in words) for part in (train, test))
    least, least_test = SPARE * max(1, samples // WORDS), SPARE * test_samples // WORDS
    enough = [word for word, n in counts.items() if n >= least and test_counts[word] >= least_test]
    return sorted(enough, key=lambda word: (counts[word], word))[:WORDS]


def _items(texts: Sequence[str], held: Sequence[frozenset[str]], words: list[str]) -> Iterator[Item]:
    wanted = frozenset(words)
    for text, own in zip(texts, held, strict=False):
        if len(there := own & wanted) == 1:
            yield Item(text, next(iter(there)))
