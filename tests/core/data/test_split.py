from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.data.split import conflicts, sample, split_rows, strata
from assay.core.errors import InputError


def texts(n: int) -> list[str]:
    return [f"text {i}" for i in range(n)]


def test_every_row_is_in_one_split_of_the_size_asked_for() -> None:
    labels = np.repeat([0, 1], [300, 100])
    train, validation, test = split_rows(texts(400), labels, 80, 0.1, seed=1)
    assert (len(test), len(validation)) == (80, 40)
    assert sorted(train + validation + test) == list(range(400))


def test_classes_keep_their_share_in_every_split() -> None:
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    for rows in split_rows(texts(1000), labels, 0.2, 0.1, seed=3):
        shares = np.bincount(labels[rows]) / len(rows)
        np.testing.assert_allclose(shares, [0.6, 0.3, 0.1], atol=0.01)


def test_seed_decides_the_split() -> None:
    labels = np.tile([0, 1], 50)
    first, again, other = (split_rows(texts(100), labels, 20, 10, seed) for seed in (5, 5, 6))
    assert first == again
    assert set(first[2]) != set(other[2])


def test_rows_of_a_sorted_file_come_out_mixed() -> None:
    labels = np.repeat([0, 1], 200)
    for rows in split_rows(texts(400), labels, 100, 100, seed=0):
        assert 10 <= labels[rows[:40]].sum() <= 30


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 2)), min_size=30, max_size=80), st.integers(0, 5))
def test_equal_texts_never_straddle(pairs: list[tuple[int, int]], seed: int) -> None:
    words, labels = [f"text {i}" for i, _ in pairs], np.array([label for _, label in pairs])
    try:
        splits = split_rows(words, labels, 5, 4, seed)
    except InputError:  # too many copies of few texts
        return
    parts = [{words[i] for i in rows} for rows in splits]
    assert sum(map(len, parts)) == len(set(words))
    assert len(splits[2]) <= 5
    assert len(splits[1]) <= 4


def test_class_of_one_text_is_for_training() -> None:
    labels = np.array([0] * 40 + [1])
    for seed in range(20):
        train, validation, test = split_rows(texts(41), labels, 0.5, 0.2, seed)
        assert 40 in train
        assert (len(test), len(validation)) == (20, 8)


def test_class_of_one_text_with_copies_is_for_training() -> None:
    words = [*texts(40), *["copy"] * 10]
    train, _, _ = split_rows(words, np.repeat([0, 1], [40, 10]), 10, 5, seed=0)
    assert set(range(40, 50)) <= set(train)


def test_every_class_is_trained_on_even_when_little_is_left() -> None:
    labels = np.repeat(np.arange(10), 3)
    train, _, _ = split_rows(texts(30), labels, 15, 5, seed=0)
    assert set(labels[train]) == set(range(10))
    with pytest.raises(InputError, match=r"data\.split\.test 15 and split\.validation 6 leave too few of 30 rows"):
        split_rows(texts(30), labels, 15, 6, seed=0)


def test_size_zero_draws_nothing() -> None:
    train, validation, test = split_rows(texts(20), np.tile([0, 1], 10), 0, 4, seed=0)
    assert (len(train), len(validation), test) == (16, 4, [])


def test_regression_splits_by_tenths_of_the_targets() -> None:
    targets = np.linspace(0, 1, 200)
    _, _, test = split_rows(texts(200), targets, 40, 20, seed=0)
    assert Counter((targets[test] * 9.999).astype(int)) == dict.fromkeys(range(10), 4)


def test_rare_label_combinations_share_a_stratum() -> None:
    labels = np.array([[0, 0]] * 6 + [[1, 1], [0, 1]])
    names = strata(labels)
    assert len(set(names[:6])) == 1
    assert names[6] == names[7] != names[0]


def test_multi_label_sizes_hold_when_most_combinations_are_rare() -> None:
    labels = np.random.default_rng(0).integers(0, 2, (300, 12))
    assert [len(rows) for rows in split_rows(texts(300), labels, 60, 30, seed=0)] == [210, 30, 60]


def test_sample_of_a_sorted_file_holds_both_classes() -> None:
    labels = np.repeat([0, 1], 50)
    rows = sample(labels, 20, seed=0)
    assert Counter(labels[rows].tolist()) == {0: 10, 1: 10}
    assert rows == sample(labels, 20, seed=0) != sample(labels, 20, seed=1)


def test_sample_keeps_rare_classes_while_places_last() -> None:
    labels = np.array([0] * 1000 + [1, 2, 3])
    assert set(labels[sample(labels, 8, seed=0)]) == {0, 1, 2, 3}
    assert len(sample(labels, 3, seed=0)) == 3
    assert sample(labels, 5000, seed=0) == list(range(1003))


def test_conflicts_are_texts_with_two_labels() -> None:
    words = ["a", "a", "b", "b", "b", "c"]
    assert conflicts(words, np.array([0, 0, 0, 1, 1, 1])) == (3, 1)
    assert conflicts(words, np.array([[0, 1], [1, 0], [1, 1], [1, 1], [1, 1], [0, 0]])) == (3, 1)
