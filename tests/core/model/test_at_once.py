"""Batches side by side: in order, and few in memory."""

from collections.abc import Iterator

import pytest

from assay.core.model.at_once import AHEAD, at_once


def test_answers_come_in_order_and_batches_are_drawn_as_they_are_needed() -> None:
    drawn: list[int] = []

    def batches() -> Iterator[int]:
        for batch in range(20):
            drawn.append(batch)
            yield batch

    for taken, answer in enumerate(at_once(lambda batch: batch * batch, batches(), workers=2)):
        assert answer == taken * taken
        assert len(drawn) <= taken + 2 * AHEAD
    assert len(drawn) == 20


def test_a_failure_is_raised_in_its_turn() -> None:
    answers = at_once(lambda batch: 12 // batch, [3, 2, 0, 1], workers=1)
    assert [next(answers), next(answers)] == [4, 6]
    with pytest.raises(ZeroDivisionError):
        next(answers)
