"""What is asked of a language model: how much is hidden, that only text and seed say what, where answers stand."""

from __future__ import annotations

from collections import Counter

import pytest
from tiny_models import tiny_tokenizer

from assay.core.errors import AssayError, NotGiven
from assay.core.model.questions import NOT_ASKED, Asker

BERT = tiny_tokenizer("bert")
LONG = "the film was a great and moving story about a man and a woman in a house with a dog " * 3


def ids_of(text: str) -> list[int]:
    return BERT(text)["input_ids"]


def test_fifteen_percent_of_the_ordinary_tokens_are_hidden_behind_the_mask() -> None:
    ids = ids_of(LONG)
    question = Asker(BERT, "fill-mask").about(ids)
    assert len(question.places) == round(0.15 * (len(ids) - 2))
    for place, (shown, target) in enumerate(zip(question.ids, question.targets, strict=True)):
        asked = place in question.places
        assert (shown, target) == ((BERT.mask_token_id, ids[place]) if asked else (ids[place], NOT_ASKED))
    assert not {0, len(ids) - 1} & set(question.places)  # separators are never asked
    assert question.answers.tolist() == [ids[place] for place in question.places]


def test_seed_and_text_say_which_tokens_are_hidden() -> None:
    ids = ids_of(LONG)
    assert Asker(BERT, "fill-mask").about(ids) == Asker(BERT, "fill-mask").about(ids)
    drawn = {tuple(Asker(BERT, "fill-mask", seed).about(ids).places) for seed in range(20)}
    assert len(drawn) > 15
    assert len(Asker(BERT, "fill-mask").about(ids_of("film")).places) == 1  # at least one
    assert Asker(BERT, "fill-mask").about(ids_of("")).places == []


def test_in_training_other_tokens_are_hidden_each_epoch_some_of_them_not_behind_the_mask() -> None:
    asker, ids = Asker(BERT, "fill-mask"), ids_of(LONG)
    assert asker.in_training(ids, row=3, epoch=1) == asker.in_training(ids, row=3, epoch=1)
    seen = Counter[str]()
    questions = [asker.in_training(ids, row, epoch) for row in range(40) for epoch in range(4)]
    for question in questions:
        for place in question.places:
            shown = question.ids[place]
            seen["mask" if shown == BERT.mask_token_id else "kept" if shown == ids[place] else "random"] += 1
    shares = {name: count / seen.total() for name, count in seen.items()}
    assert shares == pytest.approx({"mask": 0.8, "random": 0.1, "kept": 0.1}, abs=0.04)
    assert len({tuple(question.places) for question in questions}) > 150


def test_a_causal_model_is_asked_each_token_at_the_one_before_it() -> None:
    tokenizer = tiny_tokenizer("gpt2")
    asker, ids = Asker(tokenizer, "text-generation"), tokenizer("the film was great")["input_ids"]
    question = asker.about(ids)
    assert question.ids == ids
    assert question.targets == [*ids[1:], NOT_ASKED]
    assert asker.in_training(ids, row=0, epoch=5) == question
    assert asker.at(ids, [2]).targets[1] == ids[2]
    assert asker.at(ids, [2]).places == [1]
    assert asker.last(ids).places == [len(ids) - 1]  # what follows the text
    with pytest.raises(AssayError, match="nothing stands before it"):
        asker.at(ids, [0])


def test_no_mask_token_no_question() -> None:
    with pytest.raises(NotGiven, match="no mask token"):
        Asker(tiny_tokenizer("gpt2"), "fill-mask")
