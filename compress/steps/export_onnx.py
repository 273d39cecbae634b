"""Write the model as an ONNX graph with dynamic batch and length, through optimum, from the edited module in memory.

The result opens in onnxruntime and in optimum's `ORTModelForSequenceClassification`. Does not change precision: add
`quantize` after.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from assay.core.artifact import GRAPH, Artifact, Format
from compress.step import Context, Step


class ExportOnnx(Step):
    """`opset` defaults to the exporter's choice for the family. `tolerance` bounds the largest difference of a logit
    between graph and torch."""

    gives: ClassVar[Format] = "onnx"

    opset: int | None = Field(default=None, ge=14, le=20)
    tolerance: float = Field(default=1e-4, gt=0)

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: parity, and how many nodes of each operator the graph has."""
        from assay.core.model.graph import as_onnx, export, operators
        from assay.core.model.parity import compare_logits, require
        from assay.core.model.predict import OnnxPredictor, TorchPredictor

        reference = TorchPredictor(source, ctx.data.max_length)
        export(reference.module, reference.encoder.tokenizer, out, self.opset)
        graph = OnnxPredictor(as_onnx(source, out), ctx.data.max_length)
        parity = compare_logits(reference, graph, ctx.data.validation.texts)
        return {"edits": source.edits, "parity": require(parity, self.tolerance, source), "ops": operators(out / GRAPH)}
