import numpy as np

from probe.sample import draw_rows


def test_classes_keep_their_proportions() -> None:
    labels = np.repeat([0, 1, 2], [600, 300, 100])  # sorted by class: the first 100 rows would all be class 0
    assert np.bincount(labels[draw_rows(labels, 100, seed=1)]).tolist() == [60, 30, 10]


def test_same_seed_same_rows_and_another_seed_other_rows() -> None:
    labels = np.zeros(500, dtype=np.int64)
    first, again, other = (draw_rows(labels, 50, seed).tolist() for seed in (1, 1, 2))
    assert first == again != other
    assert first == sorted(set(first)) != list(range(50))


def test_more_than_there_are_gives_all() -> None:
    assert draw_rows(np.array([0, 1, 1]), 10, seed=0).tolist() == [0, 1, 2]
    assert draw_rows(np.array([], dtype=np.int64), 10, seed=0).tolist() == []


def test_a_class_of_one_row_and_labels_that_are_no_classes_are_drawn_from_too() -> None:
    assert len(draw_rows(np.array([0] * 40 + [1]), 10, seed=0)) == 10
    assert len(draw_rows(np.linspace(0, 1, 40), 10, seed=0)) == 10
    assert len(draw_rows(np.zeros((40, 3), dtype=np.int64), 10, seed=0)) == 10
