"""ONNX graphs: writing them, and counting what is in them."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import onnx

from assay.core.artifact import Artifact

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Operators that multiply 8-bit integers.
INTEGER_OPS = ("MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QAttention", "QGemm", "QLinearMatMul")


def export(module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, out: Path, opset: int | None = None) -> None:
    """Write `model.onnx`, config and tokenizer under `out`. The module is exported as it is in memory, in eval mode."""
    from optimum.exporters.onnx import onnx_export_from_model

    module.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx_export_from_model(module, out, task="text-classification", opset=opset, do_validation=False, device="cpu")
    tokenizer.save_pretrained(out)


def as_onnx(source: Artifact, folder: Path) -> Artifact:
    """The artifact that a step is about to finish in `folder`; its key is not known yet."""
    return replace(source, path=folder, key="", format="onnx")


def operators(graph: Path) -> dict[str, int]:
    """Operator -> number of nodes, most frequent first. Weights are not read."""
    model = onnx.load(str(graph), load_external_data=False)
    return dict(Counter(node.op_type for node in model.graph.node).most_common())


def integer_operators(graph: Path) -> int:
    """Nodes that multiply integers in the graph as onnxruntime runs it, after its own optimisation."""
    import onnxruntime as ort

    with TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        options.log_severity_level = 3
        ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        counts = operators(Path(options.optimized_model_filepath))
    return sum(counts.get(name, 0) for name in INTEGER_OPS)
