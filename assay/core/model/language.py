"""Predictors of language models: each answer is a distribution over the vocabulary, at the places that are asked.

As a `Predictor` a language model answers one question a text, [n, vocabulary]: the first hidden token, or the one that
follows the text. So what compares two models by their answers (parity, fidelity) works for it as for a classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import torch
from transformers import PreTrainedModel

from assay.core.artifact import Artifact, LanguageTask
from assay.core.model.asked import AskedPlaces, asked_mask
from assay.core.model.at_once import at_once
from assay.core.model.encoder import Encoder
from assay.core.model.graph_states import StatesOfGraph
from assay.core.model.predict import EVAL_BATCH, OnnxPredictor, StateBatch, TokenPredictor, TorchPredictor, tensors
from assay.core.model.questions import Asker, Question

Taken = TypeVar("Taken")
Take = Callable[[int, np.ndarray], Taken]


@runtime_checkable
class LanguageModel(TokenPredictor, Protocol):
    """A predictor that names tokens; `asker` makes questions for it."""

    asker: Asker

    def ask(
        self, questions: Sequence[Question], take: Take[Taken], batch_size: int | None = None, pad_to: int | None = None
    ) -> list[Taken]:
        """`take(number of the question, logits float32 [places, vocabulary])` for each, in the order of `questions`.

        Only what `take` returns is kept; it runs on several threads at once."""
        ...


class _Language:
    """What asking adds to a predictor of torch weights or of a graph."""

    artifact: Artifact
    encoder: Encoder
    batch_size: int

    if TYPE_CHECKING:  # of the predictor it is mixed into

        def workers(self) -> AbstractContextManager[int]: ...
        def answer(self, inputs: dict[str, np.ndarray]) -> np.ndarray: ...

    def __init__(self, artifact: Artifact, *args: Any) -> None:
        super().__init__(artifact, *args)  # type: ignore[call-arg]
        self.asker = Asker(self.encoder.tokenizer, cast(LanguageTask, artifact.task))

    def ask(
        self, questions: Sequence[Question], take: Take[Taken], batch_size: int | None = None, pad_to: int | None = None
    ) -> list[Taken]:
        """See LanguageModel."""
        ids = [question.ids for question in questions]
        batches = self.encoder.id_batches(ids, batch_size or self.batch_size, pad_to)
        found: dict[int, Taken] = {}
        with self.workers() as workers:
            for part in at_once(partial(self._taken, questions, take), batches, workers):
                found.update(part)
        return [found[number] for number in range(len(questions))]

    def _taken(
        self, questions: Sequence[Question], take: Take[Taken], batch: tuple[list[int], dict[str, np.ndarray]]
    ) -> dict[int, Taken]:
        rows, inputs = batch
        answers = self.answers_at(inputs, [questions[row].places for row in rows])
        return {row: take(row, logits) for row, logits in zip(rows, answers, strict=True)}

    def answers_at(self, inputs: dict[str, np.ndarray], places: list[list[int]]) -> list[np.ndarray]:
        """float32 [places, vocabulary] of each row of a batch."""
        logits = self.answer(inputs)  # [batch, tokens, vocabulary]
        return [row[at] for row, at in zip(logits, places, strict=True)]

    def logits(self, texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        """float32 [n, vocabulary], see Predictor."""
        return self.logits_of(self.encoder.ids(texts), batch_size, pad_to)

    def logits_of(
        self, ids: Sequence[list[int]], batch_size: int | None = None, pad_to: int | None = None
    ) -> np.ndarray:
        """float32 [n, vocabulary], see TokenPredictor."""
        questions = [self.asker.last(each) for each in ids]
        answers = self.ask(questions, lambda row, logits: logits[0], batch_size, pad_to)
        return np.stack(answers) if answers else np.zeros((0, 0), np.float32)


class TorchLanguageModel(_Language, TorchPredictor):
    """A LanguageModel and WhiteBox over torch weights."""

    def __init__(self, artifact: Artifact, max_length: int) -> None:
        super().__init__(artifact, max_length)
        self._places = AskedPlaces(self.module)

    def answers_at(self, inputs: dict[str, np.ndarray], places: list[list[int]]) -> list[np.ndarray]:
        """As of a graph, without the work of naming tokens elsewhere."""
        asked = asked_mask(places, inputs["input_ids"].shape)
        with torch.inference_mode():
            logits = self._places.output(tensors(inputs), asked).logits.float().numpy()
        return np.split(logits, np.cumsum([len(at) for at in places])[:-1])

    def states_of(
        self, ids: Sequence[list[int]], batch_size: int = EVAL_BATCH, attentions: bool = False
    ) -> Iterator[StateBatch]:
        """As of any torch model, without the work of naming tokens: `logits` are those of no place, [batch, 0]."""
        return self._states_of(cast(PreTrainedModel, self.module.base_model), ids, batch_size, attentions)


class LanguageGraph(_Language, OnnxPredictor):
    """A LanguageModel over an ONNX graph."""


class StatesOfLanguageGraph(_Language, StatesOfGraph):
    """A LanguageModel and WhiteBox over a graph that gives hidden states."""
