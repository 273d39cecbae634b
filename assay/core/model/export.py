"""Writing an ONNX graph from a module in memory: through optimum where it is installed, through torch otherwise.

Torch has two exporters. The TorchScript one goes first: it takes a second where the dynamo one takes ten. Where it
fails, the dynamo one is tried and the reason recorded. Whether the graph is right, the parity gate says (`parity.py`).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from assay.core.artifact import GRAPH, Task, is_image, is_language
from assay.core.errors import AssayError, InputError
from assay.core.model.corrupt import first_line
from assay.core.model.generations import why_no_optimum
from assay.core.model.inputs import ANY_SIZE, DUMMY_SHAPE, NO_STATES, GraphSpec, graph_spec
from assay.core.model.load import save_reader
from assay.core.model.outputs import hidden_states_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Exporter = Literal["auto", "optimum", "torch"]
CLASSIFIER = "text-classification"  # optimum's name for every kind of it
NOISY = ("torch.onnx", "optimum")  # the second tells of each tied weight it finds
OPSET = 18  # optimum's choice for these families


@dataclass(frozen=True)
class Exported:
    """`exporter` wrote the graph; `reason` says why it was not the exporter that goes first, None where it was."""

    exporter: Literal["optimum", "torch (TorchScript)", "torch (dynamo)"]
    reason: str | None


def export(
    module: PreTrainedModel,
    reader: Any,
    out: Path,
    opset: int | None = None,
    exporter: Exporter = "auto",
    task: Task = "text-classification",
    states: Sequence[str] = (),
) -> Exported:
    """Write `model.onnx`, config and tokenizer or image settings (`reader`, see `load_reader`) under `out`.

    The module is exported as it is in memory, in eval mode. With `states`, one name each, all hidden states are outputs
    too; optimum writes no such graph. A graph of images takes those of one size, and torch writes it.

    InputError where optimum is asked for and cannot be used here, AssayError where no exporter of torch can do it."""
    called = task if is_language(task) else CLASSIFIER
    image = reader.settings.shape if is_image(task) else None
    known = ANY_SIZE if image else NO_STATES if states else None
    absent = known or why_no_optimum() or _why_not_by_optimum(module.config.model_type, called)
    if exporter == "optimum" and absent:
        raise InputError(f"exporter optimum: {absent}")
    out.mkdir(parents=True, exist_ok=True)
    module.eval()
    with _quiet():
        if exporter == "torch" or absent:
            spec = graph_spec(module.config.model_type, task, states, image)
            result = _by_torch(module, spec, out, opset, absent if exporter == "auto" else None)
        else:
            result = _by_optimum(module, called, out, opset)
    save_reader(reader, out)
    return result


def _why_not_by_optimum(family: str, called: str) -> str | None:
    """Why optimum cannot write a model of this family and task, by its own name for it; None where it can."""
    import optimum.exporters.onnx.model_configs  # noqa: F401 (tells the manager what it can write)
    from optimum.exporters.tasks import TasksManager

    known = TasksManager.get_supported_tasks_for_model_type(family, "onnx", library_name="transformers")
    return None if called in known else f"optimum writes no {called} graph of {family}"


def _by_optimum(module: PreTrainedModel, called: str, out: Path, opset: int | None) -> Exported:
    from optimum.exporters.onnx import onnx_export_from_model

    onnx_export_from_model(module, out, task=called, opset=opset, do_validation=False, device="cpu")
    return Exported("optimum", None)


def _by_torch(module: PreTrainedModel, spec: GraphSpec, out: Path, opset: int | None, reason: str | None) -> Exported:
    """The TorchScript exporter, the dynamo one where that fails."""
    module.config.save_pretrained(out)
    try:
        torchscript(module, spec, out / GRAPH, opset)
        return Exported("torch (TorchScript)", reason)
    except Exception as error:  # a traced model may raise anything; the reason goes into the record
        failure = f"the TorchScript exporter failed with {type(error).__name__}: {first_line(error)}"
    try:
        dynamo(module, spec, out / GRAPH, opset)
    except Exception as error:
        told = f"{failure}; the dynamo exporter with {type(error).__name__}: {first_line(error)}"
        raise AssayError(f"no graph: {told}") from error
    return Exported("torch (dynamo)", "; ".join(filter(None, (reason, failure))))


def torchscript(module: nn.Module, spec: GraphSpec, path: Path, opset: int | None = None) -> None:
    """Trace the module on dummy rows and write the graph."""
    _write(module, spec, path, opset or OPSET, dynamo=False, dynamic_axes={**spec.inputs, **spec.outputs})


def dynamo(module: nn.Module, spec: GraphSpec, path: Path, opset: int | None = None) -> None:
    """Capture the module with torch.export and write the graph; the opset is torch's choice unless given."""
    shapes = (tuple(spec.inputs.values()),)
    _write(module, spec, path, opset, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False)


def _write(module: nn.Module, spec: GraphSpec, path: Path, opset: int | None, **how: Any) -> None:
    images = (torch.zeros(DUMMY_SHAPE[0], *spec.image),) if spec.image else ()
    rows = images or tuple(_dummy(name, module.config) for name in spec.inputs)
    how |= {"input_names": list(spec.inputs), "output_names": list(spec.outputs), "opset_version": opset}
    with _in_order(module, tuple(spec.inputs), len(spec.outputs) > 1):
        torch.onnx.export(module, rows, str(path), **how)


def _dummy(name: str, config: Any) -> torch.Tensor:
    """Ones; token ids are of an ordinary token, and each row ends as a text does."""
    rows = torch.ones(DUMMY_SHAPE, dtype=torch.int64)
    if name == "input_ids":
        ends = [end for end in (config.pad_token_id, config.eos_token_id) if isinstance(end, int)]
        rows *= next(token for token in range(3) if token not in ends)
        if isinstance(config.eos_token_id, int):
            rows[:, -1] = config.eos_token_id
    return rows


@contextmanager
def _in_order(module: nn.Module, names: tuple[str, ...], states: bool) -> Iterator[None]:
    """The module takes its inputs in the order of `names` and gives its logits, with hidden states after them where
    asked for, as exporters want it. A module around it would do the same, but put its own name before that of every
    weight in the graph."""
    forward = module.forward

    def ordered(*inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        found = forward(**dict(zip(names, inputs, strict=True)), output_hidden_states=states)
        return (found.logits, *hidden_states_of(found)) if states else found.logits

    module.forward = ordered
    try:
        yield
    finally:
        del module.forward


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' notes on tracing, on their own age and on packages they could use."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
