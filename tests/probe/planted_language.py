"""Language models whose every distribution is planted, behind a real tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from fake_models import ARTIFACT, context, split
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from assay.core.artifact import LanguageTask
from assay.core.model.encoder import Encoder
from assay.core.model.questions import Asker, Question
from probe.probe import ProbeContext

COUNT = count()
Answer = Callable[[list[str], int], dict[str, float]]


def word_tokenizer(pieces: Sequence[str], task: LanguageTask, bos: bool = True) -> PreTrainedTokenizerFast:
    """Uncased WordPiece of these pieces; separators at both ends for fill-mask, none for text-generation."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[BOS]"]
    vocabulary = {piece: number for number, piece in enumerate([*special, *pieces])}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"} | ({"bos_token": "[BOS]"} if bos else {})
    if task == "fill-mask":
        ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
        core.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=64, **names)


class Planted:
    """`answer(tokens, place)` gives the probabilities of some tokens at a place: where a mask stands, or after the
    token there. All others share what is left. `asked` counts the texts that were read."""

    batch_size = 4

    def __init__(
        self, pieces: Sequence[str], answer: Answer, task: LanguageTask, bos: bool = True, max_length: int = 64
    ) -> None:
        self.encoder = Encoder(word_tokenizer(pieces, task, bos), max_length)
        self.asker = Asker(self.encoder.tokenizer, task)
        self.answer, self.asked, self.max_length = answer, 0, self.encoder.max_length
        self.artifact = replace(ARTIFACT, key=f"planted {next(COUNT)}", task=task)

    def ask(self, questions: Sequence[Question], take: Callable[[int, np.ndarray], Any], *_: Any) -> list[Any]:
        self.asked += len(questions)
        return [take(row, self._logits(question)) for row, question in enumerate(questions)]

    def _logits(self, question: Question) -> np.ndarray:
        tokens = self.encoder.tokenizer.convert_ids_to_tokens(question.ids)
        rows = [self._row(self.answer(tokens, place)) for place in question.places]
        return np.array(rows, dtype=np.float32).reshape(-1, len(self.encoder.tokenizer))

    def _row(self, known: dict[str, float]) -> np.ndarray:
        size = len(self.encoder.tokenizer)
        left = max(1 - sum(known.values()), 1e-12)
        row = np.full(size, np.log(left / (size - len(known))))
        for token, probability in known.items():
            row[self.encoder.tokenizer.convert_tokens_to_ids(token)] = np.log(probability)
        return row + 3.0  # logits are known up to a constant

    def logits(self, texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        return self.logits_of(self.encoder.ids(texts))

    def logits_of(
        self, ids: Sequence[list[int]], batch_size: int | None = None, pad_to: int | None = None
    ) -> np.ndarray:
        return np.stack(self.ask([self.asker.last(each) for each in ids], lambda row, logits: logits[0]))


def examined(model: Planted, teacher: Planted | None = None, texts: Sequence[str] = ("a",)) -> ProbeContext:
    """What a probe may use beside the model; the teacher is the model itself unless given."""
    return context(split(list(texts)), teacher=teacher or model, task=model.asker.task)
