"""Predictors: texts in, logits out, the same for torch and ONNX; a white box adds what happens inside.

Of a model of images a "text" is the path of one, see `images.py`; its tokens are patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from assay.core.artifact import Artifact, is_language
from assay.core.errors import NotGiven
from assay.core.model.at_once import at_once, cores, one_torch_thread_each
from assay.core.model.encoder import Encoder, open_encoder

if TYPE_CHECKING:
    import torch
    from onnxruntime import InferenceSession
    from transformers import PreTrainedModel

EVAL_BATCH = 16


@runtime_checkable
class Predictor(Protocol):
    """`artifact` is the model on disk, `batch_size` the rows of a batch unless asked otherwise, `max_length` the tokens
    a text is cut to."""

    artifact: Artifact
    batch_size: int
    max_length: int

    def logits(self, texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        """float32 [n, labels] in the order of `texts`. Rows are batched by length and padded to the longest of their
        batch, or to `pad_to` tokens."""
        ...


@dataclass(frozen=True)
class StateBatch:
    """What the model did with a few rows. Arrays are float32 torch tensors without gradient.

    rows:       positions in the list of texts that was given
    input_ids:  [batch, tokens]; of images the places of the tokens, which have no ids
    mask:       [batch, tokens] bool, False on padding
    special:    [batch, tokens] bool, True on separators ([CLS], [SEP], <s>, ...)
    hidden:     one [batch, tokens, width] a layer, the embedding output first
    attentions: one [batch, heads, tokens, tokens] a layer (heads may differ by layer); empty list if not asked for
    logits:     [batch, labels]
    cross:      as `attentions`, of each decoder layer to its encoder, [batch, heads, decoder tokens, tokens]
    """

    rows: list[int]
    input_ids: torch.Tensor
    mask: torch.Tensor
    special: torch.Tensor
    hidden: list[torch.Tensor]
    attentions: list[torch.Tensor]
    logits: torch.Tensor
    cross: list[torch.Tensor] = field(default_factory=list)


@runtime_checkable
class WhiteBox(Predictor, Protocol):
    """A torch model. `layers` are the original layer numbers still present; `heads[i]` the original head numbers of
    the i-th present layer."""

    layers: tuple[int, ...]
    heads: tuple[tuple[int, ...], ...]

    def states(
        self, texts: Sequence[str], batch_size: int = EVAL_BATCH, attentions: bool = False
    ) -> Iterator[StateBatch]:
        """Stream of batches sorted by length; nothing is kept, so memory does not grow with rows."""
        ...


@runtime_checkable
class TokenPredictor(Predictor, Protocol):
    """A predictor that shows its tokenizer and answers token ids too, such as those of a text without a word."""

    encoder: Encoder

    def logits_of(
        self, ids: Sequence[list[int]], batch_size: int | None = None, pad_to: int | None = None
    ) -> np.ndarray:
        """float32 [n, labels] of texts that are token ids, separators included; batched as those of `logits`."""
        ...


@runtime_checkable
class TokenWhiteBox(WhiteBox, Protocol):
    """A white box that shows its tokenizer and reads token ids too, such as those of a text with a word masked."""

    encoder: Encoder

    def states_of(
        self, ids: Sequence[list[int]], batch_size: int = EVAL_BATCH, attentions: bool = False
    ) -> Iterator[StateBatch]:
        """As `states`, of texts that are token ids, separators included."""
        ...


class TorchPredictor:
    """A WhiteBox over a torch module in evaluation mode."""

    batch_size = EVAL_BATCH

    def __init__(self, artifact: Artifact, max_length: int) -> None:
        from assay.core.model.edits import layout_of
        from assay.core.model.load import load_module

        self.artifact = artifact
        self.module = load_module(artifact)
        self.encoder = open_encoder(artifact, max_length)
        self.max_length = self.encoder.max_length
        layout = layout_of(artifact.config, artifact.edits)
        self.layers = tuple(layer.index for layer in layout.layers)
        self.heads = tuple(layer.heads for layer in layout.layers)

    def logits(self, texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        """float32 [n, labels], see Predictor."""
        return self.logits_of(self.encoder.ids(texts), batch_size, pad_to)

    def logits_of(
        self, ids: Sequence[list[int]], batch_size: int | None = None, pad_to: int | None = None
    ) -> np.ndarray:
        """float32 [n, labels], see TokenPredictor."""
        with self.workers() as workers:
            return _gather(self, ids, batch_size, pad_to, workers, self.module.config.num_labels)

    def workers(self) -> AbstractContextManager[int]:
        """Threads that may each call `answer` at the same time while this lasts."""
        return one_torch_thread_each()

    def answer(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """float32 logits of one batch, as the model gives them."""
        import torch

        with torch.inference_mode():
            return self.module(**tensors(inputs)).logits.float().numpy()

    def states(
        self, texts: Sequence[str], batch_size: int = EVAL_BATCH, attentions: bool = False
    ) -> Iterator[StateBatch]:
        """Stream of StateBatch, see WhiteBox. AssayError when attentions are asked for and the kernel gives none."""
        return self.states_of(self.encoder.ids(texts), batch_size, attentions)

    def states_of(
        self, ids: Sequence[list[int]], batch_size: int = EVAL_BATCH, attentions: bool = False
    ) -> Iterator[StateBatch]:
        """As `states`, of texts that are token ids, see TokenWhiteBox."""
        return self._states_of(self.module, ids, batch_size, attentions)

    def _states_of(
        self, module: PreTrainedModel, ids: Sequence[list[int]], batch_size: int, attentions: bool
    ) -> Iterator[StateBatch]:
        """Those of the whole model, or of its base, which gives no logits: [batch, 0]."""
        import torch

        from assay.core.model.outputs import attentions_of, cross_attentions_of, hidden_states_of

        for rows, inputs in self.encoder.id_batches(ids, batch_size):
            batch = tensors(inputs)
            with torch.inference_mode():
                out = module(**batch, output_hidden_states=True, output_attentions=attentions)
            hidden = hidden_states_of(out)
            weights, cross = (attentions_of(out), cross_attentions_of(out)) if attentions else ([], [])
            logits = out.logits if "logits" in out else torch.zeros(len(rows), 0)
            read, mask, special = self.encoder.tokens_of(batch, hidden[0].shape[1])
            yield StateBatch(rows, read, mask, special, hidden, weights, logits, cross)


class OnnxPredictor:
    """A Predictor over an ONNX graph. Inputs the graph does not have are dropped from what the tokenizer gives.

    Texts are answered one by one, without padding, unless asked otherwise: 8-bit activations get one scale for the
    whole batch, so only then does an answer depend on nothing but its own text."""

    batch_size = 1

    def __init__(self, artifact: Artifact, max_length: int, session: InferenceSession | None = None) -> None:
        from assay.core.model.load import load_session

        self.artifact = artifact
        self.session = session or load_session(artifact, threads=1)
        self.encoder = open_encoder(artifact, max_length)
        self.max_length = self.encoder.max_length

    def logits(self, texts: Sequence[str], batch_size: int | None = None, pad_to: int | None = None) -> np.ndarray:
        """float32 [n, labels], see Predictor."""
        return self.logits_of(self.encoder.ids(texts), batch_size, pad_to)

    def logits_of(
        self, ids: Sequence[list[int]], batch_size: int | None = None, pad_to: int | None = None
    ) -> np.ndarray:
        """float32 [n, labels], see TokenPredictor."""
        with self.workers() as workers:
            return _gather(self, ids, batch_size, pad_to, workers, len(self.artifact.labels))

    def workers(self) -> AbstractContextManager[int]:
        """Threads that may each call `answer` at the same time while this lasts."""
        return nullcontext(cores())

    def answer(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """float32 logits of one batch, as the graph gives them."""
        return run_graph(self.session, inputs)


def open_predictor(artifact: Artifact, max_length: int) -> Predictor:
    """The predictor for the artifact's format and task: a WhiteBox of torch weights, and of a graph that gives hidden
    states; a LanguageModel where tokens are named."""
    from assay.core.model import language
    from assay.core.model.graph_states import StatesOfGraph
    from assay.core.model.inputs import STATES
    from assay.core.model.load import load_session

    names_tokens = is_language(artifact.task)
    if artifact.format == "torch":
        return (language.TorchLanguageModel if names_tokens else TorchPredictor)(artifact, max_length)
    session = load_session(artifact, threads=1)
    if any(output.name.startswith(STATES) for output in session.get_outputs()):
        return (language.StatesOfLanguageGraph if names_tokens else StatesOfGraph)(artifact, max_length, session)
    return (language.LanguageGraph if names_tokens else OnnxPredictor)(artifact, max_length, session)


def _gather(
    model: TorchPredictor | OnnxPredictor,
    ids: Sequence[Any],
    batch_size: int | None,
    pad_to: int | None,
    workers: int,
    labels: int,
) -> np.ndarray:
    """float32 [texts, labels]: each batch's answer at the rows it stands for. Workers make their batches themselves."""
    out = np.zeros((len(ids), labels), dtype=np.float32)
    batches = list(model.encoder.row_batches(ids, batch_size or model.batch_size))

    def answer(rows: list[int]) -> np.ndarray:
        return model.answer(model.encoder.pad([ids[row] for row in rows], pad_to))

    for rows, logits in zip(batches, at_once(answer, batches, workers), strict=True):
        out[rows] = logits
    return out


def run_graph(session: InferenceSession, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Logits [batch, labels] of one batch."""
    return run_outputs(session, inputs, ["logits"])[0]


def run_outputs(session: InferenceSession, inputs: dict[str, np.ndarray], names: list[str]) -> list[np.ndarray]:
    """The named outputs for one batch. The feed is built from the graph's own list of inputs.

    Raises NotGiven when the graph wants an input that the tokenizer does not give."""
    wanted = [item.name for item in session.get_inputs()]
    given = {**_by_default(inputs), **inputs}
    if absent := [name for name in wanted if name not in given]:
        raise NotGiven(f"the graph wants {absent}, the tokenizer gives {sorted(inputs)}")
    return session.run(names, {name: given[name] for name in wanted})


def _by_default(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What some graphs want and a tokenizer need not give: one segment, and positions counted from the first token."""
    if "input_ids" not in inputs:
        return {}
    ids = inputs["input_ids"]
    real = inputs.get("attention_mask", np.ones_like(ids))
    return {"token_type_ids": np.zeros_like(ids), "position_ids": np.maximum(real.cumsum(axis=1) - 1, 0)}


def tensors(inputs: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The same arrays as torch tensors, nothing copied."""
    import torch

    return {name: torch.from_numpy(value) for name, value in inputs.items()}
