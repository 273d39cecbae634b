"""How much head and tail of a triple tell of each other in a masked language model: pointwise mutual information
(Davison, Feldman and Rush 2019, "Commonsense Knowledge Mining from Pretrained Models",
https://aclanthology.org/D19-1109).

PMI(t, h | r) = w log p(t | h, r) - log p(t | r), the mean of this and of the same with head and tail exchanged;
p(t | r) is asked with the head hidden too. At w = 1 it is mutual information; another w weighs the conditional part.
The released code computes it so, and chooses w from 0.5 to 5 without labels, by the fit of two Gaussians to the scores
(https://github.com/JoshFeldman95/Extracting-CK-from-Large-LM); here w is a setting.

Of several templates that is taken which makes the likeliest sentence, its log-probability divided by tokens ** 0.2 as
in the released code (coherency ranking). The paper asks GPT-2 for it, here the model itself is asked, by its
pseudo-log-likelihood. The code moreover hides every place in which the words of head or tail occur, leaves their
articles shown, and tries the words in several forms (articles, plurals, gerunds); here they stand as given, and are
hidden whole and in their own place only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probe.language.greedy_fill import Fill, fill_greedily
from probe.language.read_texts import ReadText, last_character, read_texts
from probe.language.sentence_scores import score_texts
from probe.language.triples import Sentence, Triple, put_in
from probe.word_spans import Span

if TYPE_CHECKING:
    from assay.core.model.language import LanguageModel

LENGTH_POWER = 0.2
CUT = "the model cannot read the whole sentence"
UNKNOWN = "the tokenizer does not know a word of it"
MERGED = "head or tail has no token of its own"


@dataclass(frozen=True)
class Information:
    """Log-probabilities in nats of a triple's tail and head, each beside the other and without it (`alone`), in the
    sentence that its template made. `obstacle`: why it cannot be asked, None where it can."""

    template: str = ""
    sentence: str = ""
    tail: float = np.nan
    tail_alone: float = np.nan
    head: float = np.nan
    head_alone: float = np.nan
    obstacle: str | None = None

    def score(self, weight: float = 1.0) -> float:
        """Weighted mutual information in nats, NaN with an obstacle; 0 at weight 1 where neither tells of the other."""
        return (weight * (self.tail + self.head) - self.tail_alone - self.head_alone) / 2


@dataclass(frozen=True)
class _Read:
    """A template's sentence as tokens: places of those of head and tail."""

    template: str
    sentence: Sentence
    ids: list[int]
    head: list[int]
    tail: list[int]
    obstacle: str | None


def score_triples(
    model: LanguageModel, triples: Sequence[Triple], templates: Mapping[str, Sequence[str]]
) -> list[Information]:
    """Of each triple, from the templates of its relation. The model reads a sentence twice as often as head and tail
    have tokens, and where there are several templates each once a token of its own."""
    chosen = _most_coherent(model, _read(model, triples, templates))
    able = [each for each in chosen if each.obstacle is None]
    fills = [
        Fill(each.ids, places, hidden)
        for each in able
        for places, hidden in ((each.tail, []), (each.tail, each.head), (each.head, []), (each.head, each.tail))
    ]
    values = iter(fill_greedily(model, fills).reshape(-1, 4).tolist())
    return [
        Information(each.template, each.sentence.text, *next(values))
        if each.obstacle is None
        else Information(each.template, each.sentence.text, obstacle=each.obstacle)
        for each in chosen
    ]


def _read(model: LanguageModel, triples: Sequence[Triple], templates: Mapping[str, Sequence[str]]) -> list[list[_Read]]:
    """The candidates of each triple."""
    made = [(row, template) for row, triple in enumerate(triples) for template in templates[triple.relation]]
    sentences = [put_in(template, triples[row]) for row, template in made]
    found: list[list[_Read]] = [[] for _ in triples]
    reads = read_texts(model, [each.text for each in sentences])
    for (row, template), sentence, read in zip(made, sentences, reads, strict=True):
        found[row].append(_placed(template, sentence, read, model.encoder.tokenizer.unk_token_id))
    return found


def _placed(template: str, sentence: Sentence, read: ReadText, unknown: int | None) -> _Read:
    head, tail = (_places(read, span) for span in (sentence.head, sentence.tail))
    obstacle = None
    if read.cut:
        obstacle = CUT
    elif not head or not tail:
        obstacle = MERGED
    elif unknown in [read.ids[place] for place in (*head, *tail)]:
        obstacle = UNKNOWN
    return _Read(template, sentence, read.ids, head, tail, obstacle)


def _places(read: ReadText, span: Span) -> list[int]:
    """Those of the tokens that end in the span."""
    start, end = span
    return [place for place in read.asked if start <= last_character(read.text, read.spans[place] or (0, 0)) < end]


def _most_coherent(model: LanguageModel, candidates: list[list[_Read]]) -> list[_Read]:
    """The candidate of each triple that makes the likeliest sentence, of those that can be asked."""
    able = [[each for each in group if each.obstacle is None] or group[:1] for group in candidates]
    asked = [each.sentence.text for group in able if len(group) > 1 for each in group]
    scores = iter([each.total / max(len(each.read.asked), 1) ** LENGTH_POWER for each in score_texts(model, asked)])
    return [
        group[0] if len(group) == 1 else max([(next(scores), -at, each) for at, each in enumerate(group)])[2]
        for group in able
    ]
