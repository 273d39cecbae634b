"""Store weights as 8-bit integers and multiply in integers; activations get their scale at run time (dynamic).

Does not retrain and needs no calibration rows. Embeddings are stored in 8 bits too, which is where half of a small
model's bytes are.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from assay.core.artifact import GRAPH, Artifact, Format, is_language
from assay.core.manifest import MANIFEST
from compress.step import Context, Step

TOLERANCES = {False: 2.0, True: 20.0}  # by whether it is a language model


class Quantize(Step):
    """`per_channel` gives each output column its own weight scale. `reduce_range` uses 7 of 8 bits for weights: without
    VNNI the u8 x s8 instruction adds two products in 16 bits and saturates at full range, silently; 7 bits are exact
    on every CPU. `tolerance` bounds the largest difference of a logit from torch, by default 2, and 20 for a language
    model, whose many logits reach further: a gate against broken graphs, what is lost is reported beside it."""

    takes: ClassVar[Format] = "onnx"
    gives: ClassVar[Format] = "onnx"

    scheme: Literal["int8_dynamic"] = "int8_dynamic"
    per_channel: bool = True
    reduce_range: bool = True
    tolerance: float | None = Field(default=None, gt=0)

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: parity with the torch weights, operators, and the integer products that onnxruntime will run."""
        from onnxruntime.quantization import QuantType, quantize_dynamic

        from assay.core.model.graph import as_onnx, integer_operators, operators
        from assay.core.model.parity import compare_logits, require
        from assay.core.model.predict import open_predictor

        # In place on a copy: onnxruntime leaves a file beside its input for a while.
        shutil.copytree(source.path, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST))
        quantize_dynamic(
            out / GRAPH,
            out / GRAPH,
            weight_type=QuantType.QInt8,
            per_channel=self.per_channel,
            reduce_range=self.reduce_range,
        )
        reference = next(artifact for artifact in reversed(ctx.lineage) if artifact.format == "torch")
        parity = compare_logits(
            open_predictor(reference, ctx.data.max_length),
            open_predictor(as_onnx(source, out), ctx.data.max_length),
            ctx.data.validation.texts,
        )
        return {
            "edits": source.edits,
            "parity": require(parity, self.tolerance or TOLERANCES[is_language(source.task)], source),
            "ops": operators(out / GRAPH),
            "integer_ops": integer_operators(out / GRAPH),
        }
