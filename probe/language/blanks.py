"""Prompts as tokens: what stands before the answer, what stands after it, and the tokens of each answer at that place.

The answer is put in and the whole is read, so that its tokens are those of running text, with a leading space where the
tokenizer wants one. The tokens of all candidates are read in the prompt's frame, the answer with the words next to it,
which is all that they depend on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probe.language.facts import ANSWER
from probe.language.read_texts import ReadText, last_character, read_texts

if TYPE_CHECKING:
    from assay.core.model.language import LanguageModel

Pieces = tuple[int, ...]


@dataclass(frozen=True)
class Blank:
    """Token ids before and after the answer, and those of the answer itself."""

    before: Pieces
    answer: Pieces
    after: Pieces


def read_blanks(model: LanguageModel, prompts: Sequence[str], answers: Sequence[str]) -> list[Blank | None]:
    """Of each prompt with its answer put in. None where the model cannot read all of it, or asks nothing there."""
    texts = [prompt.replace(ANSWER, answer) for prompt, answer in zip(prompts, answers, strict=True)]
    starts = [prompt.index(ANSWER) for prompt in prompts]
    reads = zip(read_texts(model, texts), starts, answers, strict=True)
    return [_blank(read, start, start + len(answer)) for read, start, answer in reads]


def frame_of(prompt: str) -> str:
    """`capital of France is [Y].` -> `is [Y].`: what stands next to the answer, the space between included."""
    before, _, after = prompt.partition(ANSWER)
    near = re.search(r"\S*\s*$", before), re.match(r"\s*\S*", after)
    return ANSWER.join(found.group() if found else "" for found in near)


def ends_with_answer(prompt: str) -> bool:
    """Whether nothing but marks follows the answer: a causal model knows only what stands before it."""
    return not any(character.isalnum() for character in prompt[prompt.index(ANSWER) + len(ANSWER) :])


def _blank(read: ReadText, start: int, end: int) -> Blank | None:
    places = [
        place
        for place, span in enumerate(read.spans)
        if span is not None and start <= last_character(read.text, span) < end
    ]
    if read.cut or not places or not set(places) <= set(read.asked):
        return None
    first, last = places[0], places[-1] + 1
    return Blank(tuple(read.ids[:first]), tuple(read.ids[first:last]), tuple(read.ids[last:]))
