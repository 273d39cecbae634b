"""Hidden states that all probes of a run share: each model reads a text once.

The states of every real token, in every layer, stay on disk while they are needed (float32, `probe/token_files.py`), so
that means, first tokens and words of the same texts come from one forward pass. They take at most a share of the free
space. A stream for which there is no room is read anew each time and nothing else changes; single tokens by index
(`SharedStates.tokens`) need the room and are refused beforehand.

What a text's states are can differ in the last bits with the batch that it was read in.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.errors import NoRoom
from probe.token_files import TokenFiles

if TYPE_CHECKING:
    from assay.core.artifact import Artifact
    from assay.core.model.predict import Predictor, StateBatch, WhiteBox

BATCH = 16
FREE_SHARE = 0.5  # of the free space when the first states come
MOST_BYTES = 16 * 2**30
GIB = 2**30


class StateCache:
    """The states of all models that are looked at, below `folder`; in a folder of its own that goes with it if none.

    `log` takes one line where there is no room for more."""

    def __init__(self, folder: Path | None = None, log: Callable[[str], None] = print) -> None:
        self.log = log
        self._given = folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._models: dict[tuple[str, int], SharedStates] = {}
        self._most_bytes: int | None = None

    def of(self, model: Predictor) -> SharedStates:
        """The states of a model, by the key of its artifact and the length that texts are cut to; NotGiven for one that
        gives logits only."""
        from probe.white_box import as_white_box

        box = as_white_box(model)
        key = (box.artifact.key, box.max_length)
        if key not in self._models:
            self._models[key] = SharedStates(self, box)
        return self._models[key]

    @property
    def folder(self) -> Path:
        """Where the files are, made when it is first asked for."""
        if self._given is not None:
            self._given.mkdir(parents=True, exist_ok=True)
            return self._given
        self._temporary = self._temporary or tempfile.TemporaryDirectory(prefix="assay-states-")
        return Path(self._temporary.name)

    @property
    def most_bytes(self) -> int:
        """What all models together may take."""
        if self._most_bytes is None:
            self._most_bytes = min(MOST_BYTES, int(FREE_SHARE * shutil.disk_usage(self.folder).free))
        return self._most_bytes

    @property
    def room_bytes(self) -> int:
        """What is left of it."""
        return self.most_bytes - sum(states.files.size_bytes for states in self._models.values())

    def keep_only(self, artifacts: Collection[Artifact]) -> None:
        """Forget the states of all other models, and remove their files."""
        kept = {artifact.key for artifact in artifacts}
        for key in [key for key in self._models if key[0] not in kept]:
            shutil.rmtree(self._models.pop(key).files.folder, ignore_errors=True)

    def close(self) -> None:
        """Forget all, and remove the folder."""
        self._models.clear()
        if self._given is not None:
            shutil.rmtree(self._given, ignore_errors=True)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None


class SharedStates:
    """One model as a reader of texts, each read once. `artifact`, `layers` and `heads` are those of its white box."""

    def __init__(self, cache: StateCache, model: WhiteBox) -> None:
        self.cache, self.model = cache, model
        self.artifact, self.layers, self.heads = model.artifact, model.layers, model.heads
        self.files = TokenFiles(cache.folder / f"{model.artifact.key[:12]}-{model.max_length}")
        self._told = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the states: 0 for the embedding output, else 1 + the layer's number in the original model."""
        return (0, *(layer + 1 for layer in self.layers))

    def states(self, texts: Sequence[str], batch_size: int = BATCH) -> Iterator[StateBatch]:
        """What `WhiteBox.states` gives, without attentions; in other batches where texts were read before."""
        new = list(dict.fromkeys(text for text in texts if text not in self.files.held))
        old = [row for row, text in enumerate(texts) if text in self.files.held]
        places: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            places.setdefault(text, []).append(row)
        for batch in self.model.states(new, batch_size):
            read = [new[row] for row in batch.rows]
            self._hold(batch, read)
            yield _spread(batch, [places[text] for text in read])
        yield from self.files.replay(old, [texts[row] for row in old], batch_size)

    def widths(self, texts: Sequence[str]) -> list[int]:
        """Of the layers, the embedding output first: where no text was read yet the shortest of these is, and without
        any there are none."""
        if texts and not self.files.widths:
            (batch,) = self.states([min(texts, key=len)])
            self.files.widths = [state.shape[2] for state in batch.hidden]
        return self.files.widths

    def tokens(self, texts: Sequence[str], lengths: Sequence[int]) -> TokenFiles:
        """The files with all of these texts in them; `lengths` are their numbers of tokens.

        NoRoom where there is none for them, before most of them are read."""
        self.widths(texts)
        missing = {text: n for text, n in zip(texts, lengths, strict=True) if text not in self.files.held}
        need = sum(missing.values()) * self.files.token_bytes
        if need > self.cache.room_bytes:
            raise NoRoom(
                f"states of {len(missing)} texts of {self.artifact.path.name} take {need / GIB:.1f} GiB as float32, "
                f"{max(self.cache.room_bytes, 0) / GIB:.1f} GiB may be used in {self.cache.folder}: lower the samples"
            )
        self._read(list(missing))
        return self.files

    def _read(self, texts: list[str]) -> None:
        for batch in self.model.states(texts, BATCH):
            self.files.add(batch, [texts[row] for row in batch.rows])

    def _hold(self, batch: StateBatch, texts: list[str]) -> None:
        need = int(batch.mask.sum()) * 4 * sum(state.shape[2] for state in batch.hidden)
        if need <= self.cache.room_bytes:
            self.files.add(batch, texts)
        elif not self._told:
            self._told = True
            self.cache.log(
                f"states of {self.artifact.path.name}: {self.files.size_bytes / GIB:.1f} GiB are kept, no room "
                f"for more in {self.cache.folder}; each probe reads the other texts anew"
            )


def _spread(batch: StateBatch, places: list[list[int]]) -> StateBatch:
    """The batch with its row i at all `places` [i]."""
    take = [at for at, rows in enumerate(places) for _ in rows]
    rows = [row for several in places for row in several]
    if len(take) == len(places):
        return replace(batch, rows=rows)
    return replace(
        batch,
        rows=rows,
        input_ids=batch.input_ids[take],
        mask=batch.mask[take],
        special=batch.special[take],
        hidden=[state[take] for state in batch.hidden],
        logits=batch.logits[take],
    )
