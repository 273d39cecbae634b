"""A cut tokenizer gives the same tokens on the texts it was cut for, and whole tokens on any other; what it must keep
for that is shown by leaving it out."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tiny_models import WORDS, tiny_tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from assay.core.errors import InputError
from compress.vocabulary.closure import Closure
from compress.vocabulary.texts import count, coverage, open_tokenizer, share_of, uncovered_words
from compress.vocabulary.tokenizer_json import cut, ids_of, read

KINDS = {"WordPiece": "bert", "BPE": "roberta", "Unigram": "xlm-roberta"}
every_kind = pytest.mark.parametrize("kind", KINDS)
TEXTS = ["a great movie, truly moving", "unloved and bored: 3 dull hours", "wonderful 🎬 acting", "", "  \t"]
OTHERS = ["a terrible, quickly made plot", "ugly", "zzz 77 qx", "beautiful films", ""]


def data_of(kind: str) -> dict[str, Any]:
    return read(tiny_tokenizer(KINDS[kind]))


def kept_for(data: dict[str, Any], texts: list[str], alphabet: Any = "seen") -> set[str]:
    closure, tokenizer = Closure(data), open_tokenizer(data)
    counts = count(tokenizer, texts)
    essential = closure.essential(counts, alphabet)
    essential.update(*(closure.failed_on(word) for word in uncovered_words(tokenizer, texts, closure.unknown)))
    return closure.choose(counts, essential)


def cut_to(data: dict[str, Any], tokens: set[str]) -> Tokenizer:
    ids = ids_of(data)
    return open_tokenizer(cut(data, [ids[token] for token in tokens]))


def pieces(tokenizer: Tokenizer, text: str) -> list[tuple[str, tuple[int, int]]]:
    encoding = tokenizer.encode(text)
    return [(tokenizer.id_to_token(i), place) for i, place in zip(encoding.ids, encoding.offsets, strict=True)]


@every_kind
def test_the_texts_get_the_same_tokens_and_others_only_kept_ones(kind: str) -> None:
    data = data_of(kind)
    before, kept = open_tokenizer(data), kept_for(data, TEXTS)
    after = cut_to(data, kept)
    assert len(kept) < 0.95 * len(ids_of(data))
    assert [pieces(after, text) for text in TEXTS] == [pieces(before, text) for text in TEXTS]
    assert after.get_vocab() == {token: place for place, token in enumerate(sorted(kept, key=ids_of(data).get))}
    assert coverage(before, after, TEXTS) == 1
    assert coverage(before, after, OTHERS) < 1
    assert {token for text in OTHERS for token, _ in pieces(after, text)} <= kept


@every_kind
def test_random_texts_get_the_same_tokens(kind: str) -> None:
    data, draw = data_of(kind), random.Random(kind)
    before = open_tokenizer(data)
    parts = [*WORDS.split(), *"abcxyzABQ.,🎬é", "ing", "ly", " ", " "]
    for _ in range(12):
        texts = ["".join(draw.choices(parts, k=draw.randint(1, 12))) for _ in range(4)]
        after = cut_to(data, kept_for(data, texts))
        assert [pieces(after, text) for text in texts] == [pieces(before, text) for text in texts], texts


@every_kind
def test_a_word_outside_the_texts_falls_into_seen_characters(kind: str) -> None:
    data = data_of(kind)
    before, after = open_tokenizer(data), cut_to(data, kept_for(data, ["great movies made well"]))
    word = "wormed"  # of seen characters
    unknown = Closure(data).unknown
    assert unknown not in {token for token, _ in pieces(after, word)}
    assert len(pieces(after, word)) >= len(pieces(before, word))
    joined = "".join(token for token, _ in pieces(after, word) if token not in ids_of_added(data))
    assert joined.replace("##", "").strip("\u2581\u0120") == word


def ids_of_added(data: dict[str, Any]) -> set[str]:
    return {token["content"] for token in data["added_tokens"]}


@pytest.mark.parametrize(("kind", "letter"), [("WordPiece", "##z"), ("Unigram", "z")])
def test_an_alphabet_of_all_keeps_characters_no_text_has(kind: str, letter: str) -> None:
    data = data_of(kind)
    after = {alphabet: cut_to(data, kept_for(data, ["a dull movie"], alphabet)) for alphabet in ("seen", "all")}
    unknown = Closure(data).unknown
    assert [letter in tokenizer.get_vocab() for tokenizer in after.values()] == [False, True]
    assert share_of(unknown, after["seen"], ["jazz"]) > 0
    assert share_of(unknown, after["all"], ["jazz"]) == 0


def test_bytes_all_stay_so_that_nothing_is_unknown() -> None:
    data = data_of("BPE")
    kept = kept_for(data, ["a"])
    assert set(pre_tokenizers.ByteLevel.alphabet()) <= kept
    assert Closure(data).unknown is None
    text = "日本 🎬 \x01"
    assert coverage(open_tokenizer(data), cut_to(data, kept), [text]) == 1


def test_special_tokens_stay_and_the_separators_find_them() -> None:
    for kind in KINDS:
        data = data_of(kind)
        before, after = open_tokenizer(data), cut_to(data, kept_for(data, ["x"]))
        assert after.encode("x", "x").tokens == before.encode("x", "x").tokens
        assert [after.id_to_token(i) for i in after.encode("x").ids] == after.encode("x").tokens
        assert ids_of_added(data) <= after.get_vocab().keys()


def bpe(merges: list[tuple[str, str]], alphabet: str, **settings: Any) -> dict[str, Any]:
    mark = settings.get("continuing_subword_prefix", "")
    made = [left + right.removeprefix(mark) for left, right in merges]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*alphabet.split(), *made]))}
    return read_core(Tokenizer(models.BPE(vocabulary, merges, **settings)))


def read_core(core: Tokenizer) -> dict[str, Any]:
    return read(type("Live", (), {"backend_tokenizer": core})())  # type: ignore[arg-type]


class TestBytePairs:
    def test_all_that_leads_to_a_token_stays(self) -> None:
        data = bpe([("a", "b"), ("ab", "c"), ("d", "e"), ("abc", "de"), ("x", "y")], "a b c d e x y")
        kept = kept_for(data, ["abcde"])
        assert kept == {"a", "b", "c", "d", "e", "ab", "abc", "de", "abcde"}
        ids = ids_of(data)
        assert cut(data, [ids[token] for token in kept])["model"]["merges"] == [
            ["a", "b"], ["ab", "c"], ["d", "e"], ["abc", "de"],
        ]  # fmt: skip
        without = cut_to(data, kept - {"ab"})
        assert [token for token, _ in pieces(without, "abcde")] == ["a", "b", "c", "de"]

    def test_every_way_to_a_token_stays(self) -> None:
        """`abc` is made as ab+c or as a+bc, by what stands beside it."""
        data = bpe([("b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c"), ("c", "x")], "a b c x")
        before, kept = open_tokenizer(data), kept_for(data, ["abc"])
        after = cut_to(data, kept)
        assert {"ab", "bc"} <= kept
        assert pieces(after, "abc") == pieces(before, "abc")

    def test_a_mark_within_words_is_taken_off_the_second_half(self) -> None:
        data = bpe([("a", "##b"), ("ab", "##c")], "a ##b ##c ##d", continuing_subword_prefix="##", unk_token=None)
        kept = kept_for(data, ["abc"])
        assert kept == {"a", "##b", "##c", "ab", "abc"}
        assert [token for token, _ in pieces(cut_to(data, kept), "abc")] == ["abc"]

    def test_merges_of_older_files_are_read(self) -> None:
        data = bpe([("a", "b"), ("x", "y")], "a b x y")
        old = {**data, "model": {**data["model"], "merges": ["a b", "x y"]}}
        assert cut(old, range(5)) == cut(data, range(5))

    def test_byte_tokens_stay_where_characters_fall_back_on_them(self) -> None:
        names = " ".join(f"<0x{byte:02X}>" for byte in range(256))
        data = bpe([("a", "b")], f"a b {names}", byte_fallback=True)
        assert len(kept_for(data, ["a"])) == 257


class TestWordPiece:
    DATA = read_core(Tokenizer(models.WordPiece(
        {t: i for i, t in enumerate(["[UNK]", "a", "ab", "##b", "##c", "##bX", "X"])}, unk_token="[UNK]"
    )))  # fmt: skip

    def test_a_word_that_failed_fails_again(self) -> None:
        """`abX` fails after `ab`. Without `ab`, which no text shows, it would be read as `a` and `##bX`."""
        before = open_tokenizer(self.DATA)
        kept = kept_for(self.DATA, ["abX", "a", "X"])
        assert "ab" in kept
        after, without = cut_to(self.DATA, kept | {"##bX"}), cut_to(self.DATA, {"[UNK]", "a", "##b", "##bX"})
        assert pieces(after, "abX") == pieces(before, "abX") == [("[UNK]", (0, 3))]
        assert [token for token, _ in pieces(without, "abX")] == ["a", "##bX"]

    def test_the_longest_pieces_that_were_not_used_are_not_missed(self) -> None:
        after = cut_to(self.DATA, kept_for(self.DATA, ["abc"]))
        assert [token for token, _ in pieces(after, "abc")] == ["ab", "##c"]
        assert "##bX" not in after.get_vocab()


class TestUnigram:
    DATA = read_core(Tokenizer(models.Unigram(
        [("<unk>", 0.0), ("ax", -30.0), ("b", -2.0), ("yz", -30.0), ("axy", -1.0), ("low", -80.0)], unk_id=0
    )))  # fmt: skip

    def test_the_lowest_score_sets_what_an_unknown_character_costs(self) -> None:
        """`axyz` is `ax yz` (-60) and not `axy` and an unknown z only as long as unknown costs more than -59: it costs
        10 more than the lowest piece, -80."""
        before, texts = open_tokenizer(self.DATA), ["axyz", "axy"]
        kept = kept_for(self.DATA, texts)
        after, without = cut_to(self.DATA, kept), cut_to(self.DATA, kept - {"low"})
        assert kept == {"<unk>", "ax", "yz", "axy", "low"}
        assert [pieces(after, text) for text in texts] == [pieces(before, text) for text in texts]
        assert [token for token, _ in pieces(after, "axyz")] == ["ax", "yz"]
        assert [token for token, _ in pieces(without, "axyz")] == ["axy", "<unk>"]

    def test_ids_are_places_in_the_list(self) -> None:
        model = cut(self.DATA, [0, 2, 4, 5])["model"]
        assert [piece for piece, _ in model["vocab"]] == ["<unk>", "b", "axy", "low"]
        last = {**self.DATA, "model": {**self.DATA["model"], "unk_id": 2}}
        assert cut(last, [1, 2, 5])["model"]["unk_id"] == 1
        assert Closure(last).unknown == "b"


def test_the_most_frequent_tokens_stay_where_there_is_a_limit() -> None:
    data = data_of("WordPiece")
    closure, texts = Closure(data), ["movie movie movie plot plot the"]
    counts = count(open_tokenizer(data), texts)
    essential = closure.essential(counts, "seen")
    room = [closure.choose(counts, essential, len(essential) + n) - essential for n in (0, 1, 2)]
    assert room == [set(), {"movie"}, {"movie", "plot"}]
    message = rf"cut_vocab\.max_tokens: 10 is too few: {len(essential)} tokens are special or alphabet"
    with pytest.raises(InputError, match=message):
        closure.choose(counts, essential, 10)


def test_a_group_that_does_not_fit_is_left_out_whole() -> None:
    data = bpe([("a", "b"), ("ab", "c")], "a b c")
    closure = Closure(data)
    assert closure.choose({"abc": 5}, {"a", "b", "c"}, most=4) == {"a", "b", "c"}
    assert closure.choose({"abc": 5}, {"a", "b", "c"}, most=5) == {"a", "b", "c", "ab", "abc"}


def test_ids_follow_in_every_kind_of_post_processor_and_in_the_padding() -> None:
    data = data_of("WordPiece")
    ids = ids_of(data)
    older = {"type": "BertProcessing", "sep": ["[SEP]", ids["[SEP]"]], "cls": ["[CLS]", ids["[CLS]"]]}
    both = {"type": "Sequence", "processors": [older, data["post_processor"]]}
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_id": ids["[PAD]"], "pad_token": "[PAD]"}
    padding |= {"pad_type_id": 0, "pad_to_multiple_of": None}
    out = cut({**data, "post_processor": both, "padding": padding}, [0, 2, 3, 4, *range(1, 2)])
    first, second = out["post_processor"]["processors"]
    assert (first["cls"], first["sep"]) == (["[CLS]", 2], ["[SEP]", 3])
    assert second["special_tokens"]["[SEP]"]["ids"] == [3]
    assert Closure({**data, "added_tokens": [], "post_processor": older, "padding": padding}).essential([], "seen") >= {
        "[PAD]", "[SEP]", "[CLS]",
    }  # fmt: skip
    assert both["processors"][0] is older
    assert out["padding"]["pad_id"] == 0


def test_kinds_that_cannot_be_cut_are_named() -> None:
    with pytest.raises(InputError, match=r"a WordLevel tokenizer cannot be cut; BPE, Unigram, WordPiece can"):
        read_core(Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))
    with pytest.raises(InputError, match=r"object has no tokenizer\.json; convert it"):
        read(object())  # type: ignore[arg-type]


def test_words_are_those_the_model_of_the_tokenizer_sees() -> None:
    core = Tokenizer(models.WordPiece({"[UNK]": 0, "fine": 1}, unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    assert uncovered_words(core, ["FINE", "Fine ODD"], "[UNK]") == {"fine", "odd"}
