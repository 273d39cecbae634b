"""Hidden states of an ONNX graph: those it gives as outputs beside its logits, when it was exported to do so.

Output `hidden_states.N` is the embedding output for N = 0, else what leaves layer N - 1 of the original model. They are
those of the graph that ships: of an 8-bit one, the states that its 8-bit products leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from assay.core.artifact import Artifact
from assay.core.errors import NotGiven
from assay.core.model.at_once import at_once, cores
from assay.core.model.inputs import state_names
from assay.core.model.predict import EVAL_BATCH, OnnxPredictor, StateBatch, run_outputs, tensors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class StatesOfGraph(OnnxPredictor):
    """A WhiteBox over a graph that gives hidden states. Texts go through one by one, as for its logits."""

    def __init__(self, artifact: Artifact, max_length: int, session: InferenceSession | None = None) -> None:
        from assay.core.model.edits import layout_of

        super().__init__(artifact, max_length, session)
        layout = layout_of(artifact.config, artifact.edits)
        self.layers = tuple(layer.index for layer in layout.layers)
        self.heads = tuple(layer.heads for layer in layout.layers)
        self.outputs = ["logits", *state_names(self.layers)]

    def states(
        self, texts: Sequence[str], batch_size: int = EVAL_BATCH, attentions: bool = False
    ) -> Iterator[StateBatch]:
        """Stream of StateBatch, a text each. NotGiven where attentions are asked for: a graph gives none."""
        yield from self.states_of(self.encoder.ids(texts), batch_size, attentions)

    def states_of(
        self, ids: Sequence[list[int]], batch_size: int = EVAL_BATCH, attentions: bool = False
    ) -> Iterator[StateBatch]:
        """As `states`, of texts that are token ids, see TokenWhiteBox."""
        if attentions:
            raise NotGiven(f"{self.artifact.path.name} is a graph, which gives no attentions: examine torch weights")
        yield from at_once(partial(self._read, ids), self.encoder.row_batches(ids, self.batch_size), cores())

    def _read(self, ids: Sequence[list[int]], rows: list[int]) -> StateBatch:
        import torch

        inputs = self.encoder.pad([ids[row] for row in rows])
        found = run_outputs(self.session, inputs, self.outputs)
        logits, *hidden = (torch.from_numpy(output) for output in found)
        read, mask, special = self.encoder.tokens_of(tensors(inputs), hidden[0].shape[1])
        return StateBatch(rows, read, mask, special, hidden, [], logits)
