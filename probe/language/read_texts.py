"""Texts as a language model reads them: token ids, where each token stands, and which word it is a piece of.

A causal model names each token from those before it, so it can only be asked about a first token where something stands
before the text: the start token that the tokenizer puts there itself (Llama), or else its BOS, or else its EOS token
(GPT-2, whose training texts were parted by it). Where a tokenizer has neither, the first token is not asked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.errors import NotGiven
from probe.word_spans import Span, word_spans

if TYPE_CHECKING:
    from assay.core.model.language import LanguageModel
    from assay.core.model.predict import Predictor


@dataclass(frozen=True)
class ReadText:
    """ids:   token ids, separators included;  spans: where each token stands in `text`, None for separators
    asked: positions of the tokens that the model can be asked about, all but separators and a first one that nothing
    stands before;  cut: whether the model reads less than the whole text"""

    text: str
    ids: list[int]
    spans: list[Span | None]
    asked: list[int]
    cut: bool


def as_language_model(model: Predictor, probe: str) -> LanguageModel:
    """`model`, known to name tokens; NotGiven, for the probe of that name, from a classifier."""
    from assay.core.model.language import LanguageModel

    if not isinstance(model, LanguageModel):
        raise NotGiven(f"{probe} needs a language model: task fill-mask or text-generation")
    return model


def read_texts(model: LanguageModel, texts: Sequence[str]) -> list[ReadText]:
    """Each text as `model` reads it, cut to its `max_length`. NotGiven from a tokenizer that tells no offsets."""
    encoder = model.encoder
    start = _start_token(model)
    both = zip(texts, encoder.ids(texts), encoder.offsets(texts), strict=True)
    return [_read(model, text, ids, spans or [None] * len(ids), start) for text, ids, spans in both]


def _start_token(model: LanguageModel) -> int | None:
    """What is put before texts that start without a separator; None where nothing is."""
    tokenizer = model.encoder.tokenizer
    if model.asker.task == "fill-mask":
        return None
    return tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id


def _read(model: LanguageModel, text: str, ids: list[int], spans: list[Span | None], start: int | None) -> ReadText:
    full = len(ids) >= model.encoder.max_length
    if start is not None and spans[0] is not None:
        limit = model.encoder.max_length
        ids, spans, full = [start, *ids][:limit], [None, *spans][:limit], len(ids) >= limit
    first = 0 if model.asker.task == "fill-mask" else 1
    asked = [place for place, span in enumerate(spans) if span is not None and place >= first]
    end = max((span[1] for span in spans if span is not None), default=0)
    return ReadText(text, ids, spans, asked, full and end < len(text.rstrip()))


def words_of(read: ReadText) -> list[int | None]:
    """Of each token the number of its word among `word_spans(read.text)`, None for separators and marks.

    A token belongs to the word that its last character is in; one of nothing but space, to the word that follows."""
    words = word_spans(read.text)
    ends = [end for _, end in words]
    owners: list[int | None] = []
    for span in read.spans:
        last = last_character(read.text, span) if span is not None else None
        word = len(words) if last is None else bisect_right(ends, last)
        owners.append(word if last is not None and word < len(words) and words[word][0] <= last else None)
    return owners


def last_character(text: str, span: Span) -> int:
    """Where the last character of a token stands, or the first one after a token of nothing but space."""
    start, end = span
    if text[start:end].strip():
        return end - 1
    return end + len(text[end:]) - len(text[end:].lstrip())
