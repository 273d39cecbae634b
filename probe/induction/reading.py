"""Trees of one model by each of the ways in which they can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.core.errors import NotGiven
from assay.core.model.predict import TokenWhiteBox
from probe.heads.maps import HeadList, Maps, maps_of
from probe.induction.attachment import AttachmentSums
from probe.induction.brackets import gold_brackets
from probe.induction.impact import TokenizedWords
from probe.induction.phrases import Curve, PhraseScores
from probe.induction.syntactic_distances import OF_ATTENTION, OF_STATES, attention_distances, state_distances
from probe.tree_reading import TreeReading
from probe.treebank import Sentence
from probe.word_pieces import AlignedWords, WordStates, align, encoder_of

if TYPE_CHECKING:
    from probe.shared_states import SharedStates

Impact = Callable[[TokenWhiteBox, TokenizedWords], np.ndarray]
NO_SENTENCE = "no sentence is whole in the model"
NO_BRACKET = "no sentence that is whole in the model has words under one head that stand side by side"


@dataclass(frozen=True)
class TreeReader:
    """A model and the sentences that are whole in it; `left_out` are not."""

    box: SharedStates
    sentences: list[Sentence]
    left_out: int

    @classmethod
    def of(cls, box: SharedStates, sentences: Sequence[Sentence]) -> TreeReader:
        """NotGiven from a model whose tokenizer does not tell where its tokens stand."""
        pieces = align(encoder_of(box), [each.words for each in sentences]).pieces
        whole = [each for each, words in zip(sentences, pieces, strict=True) if all(words)]
        return cls(box, whole, len(sentences) - len(whole))

    def attachments(self, impact: Impact) -> TreeReading:
        """Dependency trees from the impact of words on each other."""
        model, sums = self.box.model, AttachmentSums()
        if not isinstance(model, TokenWhiteBox):
            raise NotGiven(f"{model.artifact.path.name} does not read token ids, which changed sentences are given as")
        words = self._words(self.sentences)
        ids = model.encoder.ids(words.texts)
        for sentence, own, pieces in zip(self.sentences, ids, words.pieces, strict=True):
            kept = sentence.spoken
            sums.add(sentence, kept, impact(model, TokenizedWords(own, [pieces[at] for at in kept])))
        if not sums.edges:
            return TreeReading(NO_SENTENCE)
        return TreeReading(None, sums.told() | {"left_out": self.left_out}, sums.right, sums.lines)

    def phrases(self, bias: float) -> TreeReading:
        """Binary trees from the distances of neighbouring words, by states and, of torch weights, by attention."""
        sentences = [each for each in self.sentences if gold_brackets(each, each.spoken)]
        if not sentences:
            return TreeReading(NO_BRACKET)
        scores = PhraseScores(sentences, bias)
        self._add_states(scores, sentences)
        with_attention = self.box.artifact.format == "torch"
        if with_attention:
            self._add_attention(scores, sentences)
        told = {"left_out": self.left_out, "without_bracket": len(self.sentences) - len(sentences)}
        told |= scores.told() | {"attention": with_attention}
        return TreeReading(None, told, scores.by_sentence(), scores.lines)

    def _words(self, sentences: Sequence[Sentence]) -> AlignedWords:
        return align(encoder_of(self.box), [each.words for each in sentences])

    def _add_states(self, scores: PhraseScores, sentences: Sequence[Sentence]) -> None:
        states = WordStates.read(self.box, [each.words for each in sentences])
        starts = np.cumsum([0, *(len(each.words) for each in sentences)])
        for position, number in enumerate(self.box.numbers):
            layer = states.layer(position)
            for at, sentence in enumerate(sentences):
                found = state_distances(layer[int(starts[at]) + np.array(sentence.spoken)])
                for measure, distances in zip(OF_STATES, found, strict=True):
                    scores.add(Curve(measure, number), at, distances)

    def _add_attention(self, scores: PhraseScores, sentences: Sequence[Sentence]) -> None:
        words, heads = self._words(sentences), HeadList.of(self.box.model)
        for batch in self.box.model.states(words.texts, attentions=True):
            for maps in maps_of(batch, heads):
                for at, found in _distances(maps, sentences, words):
                    for measure, distances in zip(OF_ATTENTION, found, strict=True):
                        _add_heads(scores, measure, at, distances, heads)


def _distances(maps: Maps, sentences: Sequence[Sentence], words: AlignedWords) -> Iterator[tuple[int, np.ndarray]]:
    """Of each row its sentence, and [measures, heads, kept words - 1]."""
    for at, weights in zip(maps.rows, maps.by_token, strict=True):
        yield at, attention_distances(weights, [words.pieces[at][word] for word in sentences[at].spoken])


def _add_heads(scores: PhraseScores, measure: str, at: int, distances: np.ndarray, heads: HeadList) -> None:
    """Distances [heads, words - 1] of each head, and their mean of each layer."""
    layers = np.array([layer for layer, _ in heads.numbers])
    for number in np.unique(layers).tolist():
        scores.add(Curve(measure, number), at, distances[layers == number].mean(0))
    for (layer, head), own in zip(heads.numbers, distances, strict=True):
        scores.add(Curve(measure, layer, head), at, own)
