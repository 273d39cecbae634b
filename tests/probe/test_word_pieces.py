"""Which tokens belong to which word, on real tokenizers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tiny_models import tiny_tokenizer

from assay.core.artifact import Artifact
from assay.core.errors import NotGiven
from assay.core.model.encoder import Encoder
from assay.core.model.predict import open_predictor
from probe.shared_states import StateCache
from probe.word_pieces import WordStates, align, pieces_of

SPLIT_ENDS = ["moviegoer", "was", "very", "unboring"]  # first and last word are of several pieces in each vocabulary
SENTENCES = [
    SPLIT_ENDS,
    ["the", "film"],
    ["Ünloved", "naïve", "café", "!"],  # accents: dropped by WordPiece, several bytes each in BPE
    ["don't", "well-made", "(", "...", "10 000", "日本"],
    ["[SEP]", "film", "<s>"],
    ["x"],
]


def encoder(family: str, max_length: int = 128) -> Encoder:
    return Encoder(tiny_tokenizer(family), max_length)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_every_real_piece_belongs_to_one_word_and_words_get_their_own_pieces(family: str) -> None:
    encode = encoder(family)
    words = align(encode, SENTENCES)
    assert (words.vanished, words.cut) == (0, 0)
    for sentence, text, pieces, length in zip(SENTENCES, words.texts, words.pieces, words.lengths, strict=True):
        ids = encode.ids([text])[0]
        assert length == len(ids)
        assert [at for word in pieces for at in word] == list(range(1, length - 1))  # all but the two separators
        if "<s>" in sentence:  # a separator where a word is expected: it has its place, but is read otherwise alone
            continue
        for word, own in zip(sentence, pieces, strict=True):
            alone = encode.ids([word if word == sentence[0] or family != "roberta" else f" {word}"])[0][1:-1]
            assert [ids[at] for at in own] == alone
    assert len(words.pieces[0][0]) > 1 < len(words.pieces[0][-1])


def test_offsets_decide_and_not_strings() -> None:
    """Spaces go to the word after them, and a piece across two words to the one that it ends in."""
    assert pieces_of([None, (0, 3), (3, 8), (8, 9), None], ends=[3, 8, 10]) == [[1], [2], [3]]
    assert pieces_of([(0, 3), (3, 4), (4, 8)], ends=[3, 8]) == [[0], [1, 2]]
    assert pieces_of([(0, 3), (2, 6), (6, 8)], ends=[3, 8]) == [[0], [1, 2]]
    assert pieces_of([(0, 0), (0, 3), (3, 3)], ends=[3, 8]) == [[0, 1], [2]]
    assert pieces_of([None, None], ends=[]) == []


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_words_that_are_cut_anywhere_are_left_out_and_counted(family: str, side: str) -> None:
    encode = encoder(family, max_length=6)
    encode.tokenizer.truncation_side = side
    whole, words = align(encoder(family), [SPLIT_ENDS]), align(encode, [SPLIT_ENDS])
    kept = [bool(word) for word in words.pieces[0]]
    assert words.lengths == [6]
    assert words.cut == kept.count(False) > 0
    for own, full in zip(words.pieces[0], whole.pieces[0], strict=True):
        assert len(own) in (0, len(full))
    assert words.whole.tolist() == kept
    assert kept[0] is False or kept[-1] is False


def test_words_that_the_tokenizer_drops_are_left_out_and_counted() -> None:
    words = align(encoder("bert"), [["film", "\u200b", "\u00ad", "story"]])
    assert words.vanished == 2
    assert words.whole.tolist() == [True, False, False, True]


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_vectors_are_means_or_first_pieces_of_the_states_of_one_text(
    family: str, tiny_artifact: Callable[..., Artifact]
) -> None:
    model, cache = open_predictor(tiny_artifact(family, layers=2), 32), StateCache()
    sentences = [*SENTENCES[:2], ["\u200b", *SPLIT_ENDS]]
    found = WordStates.read(cache.of(model), sentences)
    expected: dict[str, list[torch.Tensor]] = {"mean": [], "first": []}
    for text, pieces in zip(found.words.texts, found.words.pieces, strict=True):
        (batch,) = model.states([text])
        for word in filter(None, pieces):
            expected["mean"].append(batch.hidden[1][0, word].mean(0))
            expected["first"].append(batch.hidden[1][0, word[0]])
    for kind in ("mean", "first"):
        torch.testing.assert_close(found.layer(1, kind), torch.stack(expected[kind]), atol=1e-5, rtol=1e-4)  # type: ignore[arg-type]
    assert not np.allclose(found.layer(1, "mean"), found.layer(1, "first"))


def test_a_tokenizer_without_offsets_is_told_of() -> None:
    from transformers import PreTrainedTokenizer

    class Slow(PreTrainedTokenizer):
        def __init__(self) -> None:
            super().__init__()

        def get_vocab(self) -> dict[str, int]:
            return {}

    with pytest.raises(NotGiven, match="Slow does not tell where tokens stand"):
        align(Encoder(Slow(), 8), [["film"]])  # type: ignore[arg-type]
