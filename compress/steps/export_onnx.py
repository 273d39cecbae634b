"""Write the model as an ONNX graph with dynamic batch and length, from the edited module in memory.

Through optimum where it is installed, through torch's own exporters otherwise. Inputs, axes and output have the same
names either way, and the result opens in onnxruntime and in optimum's `ORTModelForSequenceClassification`. The graph is
then rewritten to do less work for the same logits (`rewrite.py`). Does not change precision: add `quantize` after.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from assay.core.artifact import GRAPH, Artifact, Format, is_image
from assay.core.errors import SettingError
from assay.core.model.generations import why_no_optimum
from assay.core.model.inputs import ANY_SIZE, NO_STATES, state_names
from compress.step import Context, Step

if TYPE_CHECKING:
    from assay.core.model.layout import Layout


class ExportOnnx(Step):
    """`exporter` "auto" is optimum where it can be used, "torch" otherwise. `opset` defaults to the exporter's choice.
    `rewrite` is on because it changes no logit: a graph without its patterns stays as it is, and false leaves any graph
    as the exporter wrote it. `hidden_states` makes each layer's states outputs of the graph, for probes of what ships.
    `tolerance` bounds the largest difference of a logit from torch in the graph that is kept."""

    version: ClassVar[int] = 2
    gives: ClassVar[Format] = "onnx"

    exporter: Literal["auto", "optimum", "torch"] = "auto"
    opset: int | None = Field(default=None, ge=14, le=20)
    rewrite: bool = True
    hidden_states: bool = False
    tolerance: float = Field(default=1e-4, gt=0)

    def check(self, layout: Layout, teacher: Layout | None) -> Layout | None:
        """The same layout; optimum must be usable here where it is asked for."""
        if self.exporter != "optimum":
            return layout
        if absent := NO_STATES if self.hidden_states else why_no_optimum():
            raise SettingError("export_onnx.exporter", f"optimum: {absent}, or use auto or torch")
        return layout

    def check_task(self, task: str, layout: Layout, teacher: Layout | None) -> None:
        """Graphs of images are written by torch."""
        if self.exporter == "optimum" and is_image(task):
            raise SettingError("export_onnx.exporter", f"{ANY_SIZE}; use auto or torch")

    @property
    def shows_states(self) -> bool:
        return self.hidden_states

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: who wrote the graph and why, what was rewritten, parity, nodes of each operator, and fused ones as
        onnxruntime runs it."""
        from assay.core.model.export import export
        from assay.core.model.graph import as_onnx, fused_operators, operators
        from assay.core.model.load import load_reader
        from assay.core.model.parity import compare_logits, require
        from assay.core.model.predict import TorchPredictor, open_predictor
        from assay.core.model.rewrite import rewrite

        reference = open_predictor(source, ctx.data.max_length)
        assert isinstance(reference, TorchPredictor)
        states = state_names(reference.layers) if self.hidden_states else []
        exported = export(reference.module, load_reader(source), out, self.opset, self.exporter, source.task, states)
        rewritten = asdict(rewrite(out / GRAPH)) if self.rewrite else None
        graph = open_predictor(as_onnx(source, out), ctx.data.max_length)
        parity = compare_logits(reference, graph, ctx.data.validation.texts)
        return {
            "edits": source.edits,
            "exporter": exported.exporter,
            "exporter_reason": exported.reason,
            "rewritten": rewritten,
            "parity": require(parity, self.tolerance, source),
            "ops": operators(out / GRAPH),
            "fused_ops": fused_operators(out / GRAPH),
        }
