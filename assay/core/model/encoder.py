"""Texts to padded batches of token ids; `open_encoder` gives what does so, or its counterpart for images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.core.artifact import Artifact
from assay.core.errors import NotGiven
from assay.core.model.anatomy import family_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


class Encoder:
    """Texts to padded batches: each text is tokenized once a call, and rows go out sorted by length.

    `end` is the token that may stand at the end of a row alone, for classifiers that find there what they read; where a
    text spells it, as in `<s>struck out</s>`, the unknown token takes its place."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int, end: int | None = None) -> None:
        self.tokenizer, self.end = tokenizer, end
        self.max_length = min(max_length, tokenizer.model_max_length)
        named = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        self._blank = next((token for token in named if token is not None), 0)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, special tokens included, cut to `max_length`. A blank text keeps its separators,
        or is one token where the tokenizer adds none."""
        if not texts:
            return []
        found = self.tokenizer(list(texts), truncation=True, max_length=self.max_length)["input_ids"]
        return [self._ended_once(ids) or [self._blank] for ids in found]

    def _ended_once(self, ids: list[int]) -> list[int]:
        if self.end is None:
            return ids
        return [self.tokenizer.unk_token_id if token == self.end else token for token in ids[:-1]] + ids[-1:]

    def offsets(self, texts: Sequence[str], cut: bool = True) -> list[list[tuple[int, int] | None]]:
        """Of each text where its tokens stand in it, (start, end) in characters, None for added separators: one for
        each of `ids`, or for each of the whole text unless `cut`. NotGiven from a tokenizer that cannot tell."""
        if not self.tokenizer.is_fast:
            raise NotGiven(f"{type(self.tokenizer).__name__} does not tell where tokens stand; use a fast tokenizer")
        if not texts:
            return []
        told = self.tokenizer(
            list(texts),
            truncation=cut,
            max_length=self.max_length if cut else None,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            verbose=False,
        )
        both = zip(told["offset_mapping"], told["special_tokens_mask"], strict=True)
        return [[None if own else span for span, own in zip(*text, strict=True)] for text in both]

    def batches(
        self, texts: Sequence[str], batch_size: int, pad_to: int | None = None
    ) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        """(positions in `texts`, int64 inputs [batch, tokens]) from the shortest rows to the longest."""
        yield from self.id_batches(self.ids(texts), batch_size, pad_to)

    def id_batches(
        self, ids: Sequence[list[int]], batch_size: int, pad_to: int | None = None
    ) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
        """As `batches`, for texts that are token ids already, separators included."""
        for rows in self.row_batches(ids, batch_size):
            yield rows, self.pad([ids[row] for row in rows], pad_to)

    def lengths(self, ids: Sequence[list[int]]) -> list[int]:
        """Tokens of each row."""
        return [len(row) for row in ids]

    def row_batches(self, ids: Sequence[list[int]], batch_size: int) -> Iterator[list[int]]:
        """Positions in `ids`, batch by batch, from the shortest rows to the longest."""
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        for start in range(0, len(order), batch_size):
            yield order[start : start + batch_size]

    def pad(self, ids: list[list[int]], pad_to: int | None = None) -> dict[str, np.ndarray]:
        """Inputs by name, padded on the tokenizer's own side to the longest row or, if that is more, to `pad_to` tokens
        (at most `max_length`)."""
        batch = self.tokenizer.pad(
            {"input_ids": ids},
            padding="max_length",
            max_length=max(min(pad_to or 0, self.max_length), *map(len, ids)),
            return_attention_mask=True,
            return_tensors="np",
        )
        return {name: np.asarray(value, dtype=np.int64) for name, value in batch.items()}

    def tokens_of(
        self, inputs: Mapping[str, torch.Tensor], count: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(ids, mask, special) of the tokens of a batch, see StateBatch; `count` is their number, padding included."""
        ids, mask = inputs["input_ids"], inputs["attention_mask"].bool()
        return ids, mask, special_tokens(self.tokenizer, ids) & mask


def open_encoder(artifact: Artifact, max_length: int) -> Any:
    """The `Encoder` of a model's texts, or the `ImageEncoder` of its images."""
    from transformers import AutoConfig

    from assay.core.model.load import load_reader

    reader, family = load_reader(artifact), family_of(artifact.family)
    if family.reads_images:
        return reader
    two_stacks = len(family.stacks) > 1
    end = AutoConfig.from_pretrained(artifact.path, local_files_only=True).eos_token_id if two_stacks else None
    return Encoder(reader, max_length, end)


def special_tokens(tokenizer: PreTrainedTokenizerBase, ids: torch.Tensor) -> torch.Tensor:
    """bool like `ids`: separators, padding and whatever else the tokenizer holds for special."""
    import torch

    return torch.isin(ids, torch.tensor(sorted(set(tokenizer.all_special_ids))))
