"""States of single tokens on disk: one float32 file a layer that grows as texts are read, mapped into memory to use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

    from assay.core.model.predict import StateBatch


@dataclass(frozen=True)
class HeldText:
    """Of one text: `start` is the row of its first real token in the files, the arrays are of its real tokens.

    input_ids, special: [tokens];  logits: [labels]"""

    start: int
    input_ids: torch.Tensor
    special: torch.Tensor
    logits: torch.Tensor

    @property
    def rows(self) -> slice:
        """Its rows in the files."""
        return slice(self.start, self.start + len(self.input_ids))


class TokenFiles:
    """The files of one model in `folder`, which is made when the first batch comes; padding is not kept.

    `widths` are those of the layers, the embedding output first. What a failed write left behind the last whole text is
    written over by the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.widths: list[int] = []
        self.tokens = 0
        self.held: dict[str, HeldText] = {}

    @property
    def size_bytes(self) -> int:
        """Of all that is held."""
        return self.tokens * self.token_bytes

    @property
    def token_bytes(self) -> int:
        """Of one token in all layers."""
        return 4 * sum(self.widths)

    def add(self, batch: StateBatch, texts: Sequence[str]) -> None:
        """Keep the states of a batch, whose rows are of `texts` in this order."""
        self.widths = [state.shape[2] for state in batch.hidden]
        self.folder.mkdir(parents=True, exist_ok=True)
        for position, state in enumerate(batch.hidden):
            self._write(position, state[batch.mask].float().numpy())
        for at, text in enumerate(texts):
            real = batch.mask[at]
            self.held[text] = HeldText(
                self.tokens,
                batch.input_ids[at][real].clone(),
                batch.special[at][real].clone(),
                batch.logits[at].clone(),
            )
            self.tokens += int(real.sum())

    def layer(self, position: int) -> np.ndarray:
        """float32 [tokens, width] of one layer, read from disk where it is touched. There must be a token."""
        shape = (self.tokens, self.widths[position])
        return np.memmap(self._path(position), np.float32, "r", shape=shape)

    def replay(self, rows: Sequence[int], texts: Sequence[str], batch_size: int) -> Iterator[StateBatch]:
        """Batches of held texts, called `rows`, from the shortest to the longest, padded on the right."""
        order = sorted(range(len(texts)), key=lambda at: len(self.held[texts[at]].input_ids))
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            yield self._batch([rows[at] for at in places], [self.held[texts[at]] for at in places])

    def _batch(self, rows: list[int], texts: list[HeldText]) -> StateBatch:
        import torch

        from assay.core.model.predict import StateBatch

        lengths = torch.tensor([len(text.input_ids) for text in texts])
        mask = torch.arange(max(int(lengths.max()), 1)) < lengths[:, None]
        ids, special = torch.zeros(mask.shape, dtype=torch.long), torch.zeros_like(mask)
        ids[mask] = torch.cat([text.input_ids for text in texts])
        special[mask] = torch.cat([text.special for text in texts])
        hidden = [self._padded(position, texts, mask) for position in range(len(self.widths))]
        return StateBatch(rows, ids, mask, special, hidden, [], torch.stack([text.logits for text in texts]))

    def _padded(self, position: int, texts: list[HeldText], mask: torch.Tensor) -> torch.Tensor:
        """[batch, tokens, width], zero on padding."""
        import torch

        state = torch.zeros(*mask.shape, self.widths[position])
        if mask.any():
            layer = self.layer(position)
            state[mask] = torch.from_numpy(np.concatenate([layer[text.rows] for text in texts]))
        return state

    def _write(self, position: int, states: np.ndarray) -> None:
        path = self._path(position)
        path.touch()
        with path.open("r+b") as file:
            file.seek(self.tokens * states.shape[1] * 4)
            file.write(np.ascontiguousarray(states).data)

    def _path(self, position: int) -> Path:
        return self.folder / f"layer-{position}.f32"
