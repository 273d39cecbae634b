"""ONNX graphs: counting what is in them. `export.py` writes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from assay.core.artifact import Artifact

# Operators that multiply 8-bit integers.
INTEGER_OPS = ("MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QAttention", "QGemm", "QLinearMatMul")
# Operators that do the work of several, written by an exporter or made by onnxruntime's optimiser.
FUSED_OPS = (
    "Attention", "MultiHeadAttention", "QAttention", "EmbedLayerNormalization", "LayerNormalization",
    "SkipLayerNormalization", "Gelu", "BiasGelu", "FastGelu", "QuickGelu", "BiasSoftmax", "FusedMatMul", "FusedGemm",
    "MatMulIntegerToFloat", "DynamicQuantizeMatMul",
)  # fmt: skip


def as_onnx(source: Artifact, folder: Path) -> Artifact:
    """The artifact that a step is about to finish in `folder`; its key is not known yet."""
    return replace(source, path=folder, key="", format="onnx")


def operators(graph: Path) -> dict[str, int]:
    """Operator -> number of nodes, most frequent first. Weights are not read."""
    model = onnx.load(str(graph), load_external_data=False)
    return dict(Counter(node.op_type for node in model.graph.node).most_common())


def integer_operators(graph: Path) -> int:
    """Nodes that multiply integers in the graph as onnxruntime runs it, after its own optimisation."""
    return sum(_counted(graph, INTEGER_OPS).values())


def fused_operators(graph: Path) -> dict[str, int]:
    """Fused operator -> number of nodes in the graph as onnxruntime runs it, after its own optimisation."""
    return _counted(graph, FUSED_OPS)


def _counted(graph: Path, names: tuple[str, ...]) -> dict[str, int]:
    """How often each of `names` occurs in the optimised graph, those that do not left out."""
    import onnxruntime as ort

    with TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        options.log_severity_level = 3
        ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        counts = operators(Path(options.optimized_model_filepath))
    return {name: counts[name] for name in names if name in counts}
