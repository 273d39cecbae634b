import numpy as np
import pytest

from probe.tasks import Examples, Task, bigram_shift_task, control_labels, length_task, swap_words
from probe.word_spans import word_spans

SENTENCES = [f"the film number {i} has a plot and some actors" for i in range(200)]


def of_length(count: int) -> str:
    return " ".join(["word"] * count)


def test_length_bins_are_quartiles_of_the_training_texts() -> None:
    task = length_task([of_length(n) for n in range(1, 101)], [of_length(n) for n in (1, 30, 60, 500)])
    assert np.bincount(task.train.labels).tolist() == [25, 25, 25, 25]
    assert task.test.labels.tolist() == [0, 1, 2, 3]
    assert task.chance == task.majority == 0.25


def test_texts_of_one_length_are_not_trainable_and_keep_their_baseline() -> None:
    task = length_task([of_length(5)] * 20, [of_length(5)] * 10)
    assert task.obstacle() == "not trainable: all 20 train rows are of one class"
    assert (task.chance, task.majority) == (1, 1)


def test_bigram_shift_swaps_one_pair_in_half_of_the_texts() -> None:
    task = bigram_shift_task(SENTENCES, SENTENCES[:50], seed=1, max_words=64)
    assert (task.train.labels.sum(), task.test.labels.sum()) == (100, 25)
    for text, shifted, original in zip(task.train.texts, task.train.labels, SENTENCES, strict=True):
        moved = [i for i, (a, b) in enumerate(zip(text.split(), original.split(), strict=True)) if a != b]
        assert sorted(text.split()) == sorted(original.split())
        assert len(moved) == 2 * shifted
        if shifted:
            assert moved[0] >= 1
            assert moved[1] == moved[0] + 1


def test_the_same_seed_shifts_the_same_way_and_another_seed_does_not() -> None:
    first, again, other = (bigram_shift_task(SENTENCES, [], seed, 64).train.texts for seed in (1, 1, 2))
    assert first == again != other


def test_swaps_stay_within_the_words_that_the_model_sees_and_leave_the_rest_alone() -> None:
    text = "One, two;  three – four? five! six"
    swapped = {swap_words(text, np.random.default_rng(seed), 4) for seed in range(20)}
    assert swapped == {"One, three;  two – four? five! six", "One, two;  four – three? five! six"}


@pytest.mark.parametrize("text", ["", "one two three", "same same same same", "这部电影很好看", ">>> <<< >>> <<<"])
def test_texts_without_a_pair_to_swap_are_left_out(text: str) -> None:
    assert swap_words(text, np.random.default_rng(0), 64) is None
    assert bigram_shift_task([text], [text], 0, 64).train.texts == []


def test_controls_depend_on_the_first_word_alone_and_follow_the_label_frequencies() -> None:
    texts = [f"w{i} {tail}" for i in range(2000) for tail in ("a b", "c d")]
    labels = control_labels(texts, np.array([0, 1, 1, 1]), seed=3)
    assert (labels[::2] == labels[1::2]).all()
    assert abs(labels.mean() - 0.75) < 0.04
    assert (control_labels(texts, np.array([0, 1]), seed=4) != control_labels(texts, np.array([0, 1]), seed=3)).any()


def test_rows_of_one_kind_share_a_control_label_and_a_kind_can_be_anything() -> None:
    paths = [f"/images/{number}.png" for number in range(200)]
    like = np.array([0, 1])
    assert len(np.unique(control_labels(paths, like, seed=3))) == 1  # one first word, so one label
    own = control_labels(paths, like, seed=3, kind=str)
    assert 70 < own.sum() < 130
    assert len(np.unique(control_labels(paths, like, seed=3, kind=lambda path: path[-5]))) == 2


def test_a_class_of_one_row_is_trainable_and_too_few_rows_are_not() -> None:
    texts = [f"text {i}" for i in range(41)]
    rare = Task("label", Examples(texts, np.array([0] * 40 + [1])), Examples(texts, np.array([0] * 40 + [2])))
    assert rare.obstacle() is None
    assert rare.majority == pytest.approx(40 / 41)
    few = Task("label", Examples(texts[:3], np.array([0, 1, 0])), Examples([], np.array([], dtype=int)))
    assert few.obstacle() == "not trainable: 3 train and 0 test rows fit, needs 10 and 5"
    assert few.majority is None


def test_length_counts_words_not_pieces() -> None:
    assert len(word_spans("I can't see a well-made film.")) == 6
