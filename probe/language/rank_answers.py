"""Where the right answer of each fact stands among the candidates of its relation and in the whole vocabulary.

The prompts of a fact are an ensemble: their log-probabilities are averaged (Jiang et al. 2020, "How Can We Know What
Language Models Know?", https://aclanthology.org/2020.tacl-1.28, eq. 4, with equal weights). Other right answers of the
same subject do not count against one (Petroni et al. 2019). A candidate as probable as the right answer counts as above
it: a model that knows nothing at all shall not be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from probe.language.blanks import Blank, Pieces, ends_with_answer, frame_of, read_blanks
from probe.language.candidates import Asked, Scores, score_candidates
from probe.language.facts import Fact

if TYPE_CHECKING:
    from assay.core.model.language import LanguageModel

TOGETHER = 32  # facts whose distributions over the vocabulary are held at once


@dataclass(frozen=True)
class Ranks:
    """Of one fact, ranks from 1. `rank` is infinite where the model has no tokens for the answer; `by_prompt` has those
    of the single prompts by their number; `in_vocabulary` is None for an answer that is not one token; `best` is the
    likeliest candidate.

    `obstacle` says why the fact cannot be asked, and then nothing else is known."""

    rank: float = np.inf
    by_prompt: dict[int, float] = field(default_factory=dict)
    in_vocabulary: float | None = None
    best: str | None = None
    obstacle: str | None = None


def rank_answers(
    model: LanguageModel, facts: Sequence[Fact], everything: Sequence[Fact], most: int | None = None, seed: int = 0
) -> list[Ranks]:
    """The ranks of `facts`, all of one relation, among the answers of `everything` that is known of it, or among `most`
    of them, drawn, and the fact's own."""
    relation = _Relation.of(model, facts, everything, most, seed)
    chunks = (facts[start : start + TOGETHER] for start in range(0, len(facts), TOGETHER))
    return [ranks for chunk in chunks for ranks in _ranked(model, chunk, relation)]


@dataclass(frozen=True)
class _Relation:
    """candidates: all answers;  drawn: those that every fact's own is ranked among;  right: subject -> its right ones
    tokens: frame of a prompt -> those of each candidate in it, none where one is unknown to the tokenizer"""

    candidates: list[str]
    drawn: frozenset[str]
    right: dict[str, set[str]]
    tokens: dict[str, list[Pieces]]

    @classmethod
    def of(
        cls, model: LanguageModel, facts: Sequence[Fact], everything: Sequence[Fact], most: int | None, seed: int
    ) -> _Relation:
        """What is known of the relation of `facts`, and the tokens of all answers in the frames of their prompts."""
        candidates = sorted({fact.answer for fact in everything})
        drawn = frozenset(Random(seed).sample(candidates, min(most or len(candidates), len(candidates))))
        right: dict[str, set[str]] = {}
        for fact in everything:
            right.setdefault(fact.subject, set()).add(fact.answer)
        frames = dict.fromkeys(frame_of(prompt) for fact in facts for prompt in fact.prompts)
        tokens = {frame: _tokens(model, frame, candidates) for frame in frames}
        return cls(candidates, drawn, right, tokens)

    def tokens_in(self, fact: Fact, number: int) -> list[Pieces]:
        """Tokens of each candidate in one of the fact's prompts."""
        return self.tokens[frame_of(fact.prompts[number])]

    def asked(self, fact: Fact, number: int) -> list[Pieces]:
        """Tokens of the candidates, none for those that this fact's answer is not ranked among."""
        both = zip(self.candidates, self.tokens_in(fact, number), strict=True)
        return [pieces if name in self.drawn or name == fact.answer else () for name, pieces in both]

    def ranks(self, fact: Fact, scores: dict[int, Scores]) -> Ranks:
        """Of one fact, from the scores in its prompts by number; none where its answer has no tokens."""
        if not scores:
            return Ranks()
        answer = self.candidates.index(fact.answer)
        counted = self._counted(fact, next(iter(scores)))
        mean = np.mean([each.candidates for each in scores.values()], axis=0)
        return Ranks(
            _rank(mean, answer, counted),
            {number: _rank(each.candidates, answer, counted) for number, each in scores.items()},
            self._in_vocabulary(fact, scores),
            self.candidates[int(np.argmax(np.where(counted, mean, -np.inf)))],
        )

    def _counted(self, fact: Fact, number: int) -> np.ndarray:
        """bool [candidates]: the answer and all others but right ones and those of the same tokens."""
        tokens = self.tokens_in(fact, number)
        own, right = tokens[self.candidates.index(fact.answer)], self.right[fact.subject]
        both = zip(self.candidates, tokens, strict=True)
        return np.array([name == fact.answer or (name not in right and each != own) for name, each in both])

    def _in_vocabulary(self, fact: Fact, scores: dict[int, Scores]) -> float | None:
        number, answer = next(iter(scores)), self.candidates.index(fact.answer)
        in_prompts = {self.tokens_in(fact, each)[answer] for each in scores}
        if len(in_prompts) > 1 or any(len(pieces) != 1 for pieces in in_prompts):
            return None
        ((own,),) = in_prompts
        also_right = [self.tokens_in(fact, number)[self.candidates.index(name)] for name in self.right[fact.subject]]
        mean = np.mean([each.vocabulary for each in scores.values()], axis=0)
        counted = np.ones(len(mean), dtype=bool)
        counted[[pieces[0] for pieces in also_right if len(pieces) == 1 and pieces[0] != own]] = False
        return _rank(mean, own, counted)


def _tokens(model: LanguageModel, prompt: str, candidates: list[str]) -> list[Pieces]:
    unknown = model.encoder.tokenizer.unk_token_id
    blanks = read_blanks(model, [prompt] * len(candidates), candidates)
    return [() if each is None or unknown in each.answer else each.answer for each in blanks]


def _ranked(model: LanguageModel, facts: Sequence[Fact], relation: _Relation) -> list[Ranks]:
    blanks = _blanks(model, facts)
    answers = [relation.candidates.index(fact.answer) for fact in facts]
    places = [
        (fact, number)
        for fact, each in enumerate(blanks)
        for number in each
        if relation.tokens_in(facts[fact], number)[answers[fact]]
    ]
    asked = [
        Asked(fact, blanks[fact][number], relation.asked(facts[fact], number), answers[fact]) for fact, number in places
    ]
    scores: list[dict[int, Scores]] = [{} for _ in facts]
    for (fact, number), each in zip(places, score_candidates(model, asked), strict=True):
        scores[fact][number] = each
    return [
        relation.ranks(fact, each) if able else Ranks(obstacle=_obstacle(model, fact))
        for fact, each, able in zip(facts, scores, blanks, strict=True)
    ]


def _blanks(model: LanguageModel, facts: Sequence[Fact]) -> list[dict[int, Blank]]:
    """Of each fact the prompts that can be asked, by number."""
    places = [
        (fact, number)
        for fact, each in enumerate(facts)
        for number, prompt in enumerate(each.prompts)
        if model.asker.task == "fill-mask" or ends_with_answer(prompt)
    ]
    prompts = [facts[fact].prompts[number] for fact, number in places]
    read = read_blanks(model, prompts, [facts[fact].answer for fact, _ in places])
    found: list[dict[int, Blank]] = [{} for _ in facts]
    for (fact, number), blank in zip(places, read, strict=True):
        if blank is not None:
            found[fact][number] = blank
    return found


def _obstacle(model: LanguageModel, fact: Fact) -> str:
    if model.asker.task == "text-generation" and not any(map(ends_with_answer, fact.prompts)):
        return "no prompt ends with the answer"
    return "the model cannot read the whole prompt"


def _rank(scores: np.ndarray, right: int, counted: np.ndarray) -> float:
    """1 for the highest of those `counted`, of which `right` is one; ties count against it."""
    return float((scores[counted] >= scores[right]).sum())
