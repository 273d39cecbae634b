"""Set single weights to zero, by size, by what they multiply, or so that the others make up for them.

Magnitude (Han et al. 2015), Wanda (Sun et al. 2023), SparseGPT (Frantar & Alistarh 2023), N:M patterns (Mishra et al.
2021), and the weights of an earlier model under the new zeros (lottery ticket, Frankle & Carbin 2019). The shapes stay:
the file is as large and its matrix products are as slow as before. Does not retrain: add `finetune` or `distil` after,
which keep the zeros.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from compress.step import Context, Step

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from compress.sparsity.choose import Selection
    from compress.sparsity.matrices import Matrix

LOOKS_AT_ROWS = ("wanda", "sparsegpt")
SCOPES = {"magnitude": ("global", "layer", "matrix", "row"), "random": ("global", "layer", "matrix", "row"),
          "wanda": ("row", "matrix"), "sparsegpt": ()}  # fmt: skip


class PruneWeights(Step):
    """`fraction` of the weights goes, zeros that are there already among them, or with `pattern: "2:4"` all but 2 of
    every 4 inputs side by side. `scope` says with which others a weight is compared; by default the whole model, for
    wanda its output row. The matrices are those of the layers, and what `also` names.

    `rows` training rows are what wanda and sparsegpt look at. sparsegpt chooses within `block` columns and adds
    `damping` times the mean diagonal to H. `rewind_to` gives what stays the values it had after that many steps of the
    chain, those of the teacher counted, 0 being the pretrained model."""

    method: Literal["magnitude", "wanda", "sparsegpt", "random"] = "magnitude"
    fraction: float | None = Field(default=None, gt=0, lt=1)
    pattern: str | None = Field(default=None, pattern=r"^[1-9]\d*:[1-9]\d*$")
    scope: Literal["global", "layer", "matrix", "row"] | None = None
    also: list[Literal["embeddings", "head"]] = Field(default=[])
    rows: int = Field(default=128, ge=1)
    block: int = Field(default=128, ge=1)
    damping: float = Field(default=0.01, gt=0)
    rewind_to: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.fraction is None) == (self.pattern is None):
            raise ValueError("give either fraction or pattern")
        if self.pattern is not None:
            self._check_pattern(*self._groups(self.pattern))
        elif self.scope is not None and self.scope not in SCOPES[self.method]:
            allowed = " or ".join(SCOPES[self.method]) or "none, it compares within its blocks"
            raise ValueError(f"scope {self.scope} does not go with {self.method}; allowed: {allowed}")
        if "embeddings" in self.also and self.method in LOOKS_AT_ROWS:
            raise ValueError(f"also: an embedding multiplies nothing that {self.method} could look at; use magnitude")
        if self.rewind_to is not None and self.method == "sparsegpt":
            raise ValueError("rewind_to: sparsegpt changes what stays, and rewinding would undo it; use another method")
        return self

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: method, sparsity (fraction, zeros, weights, by_matrix in original layer numbers), and the maps and
        embeddings left out."""
        from assay.core.model.load import load_module, load_reader, save_module
        from compress.sparsity.matrices import left_out, prunable, zeros_by_matrix
        from compress.sparsity.rewind import earlier_model, rewound

        earlier = None if self.rewind_to is None else earlier_model(self.rewind_to, ctx)
        module = load_module(source)
        self._prune(module, prunable(module, source, self.also), source, ctx)
        if earlier is not None:
            module = rewound(module, self.also, earlier, ctx)
        save_module(module, out, load_reader(source))
        matrices = prunable(module, source, self.also)
        sparsity = zeros_by_matrix(matrices)
        return {"method": self.method, "sparsity": sparsity, "left_out": left_out(module, matrices)}

    def tiny(self) -> Self:
        """Few rows, and a pattern that fits matrices of 32 inputs."""
        pattern = "2:4" if self.pattern is not None and 32 % self._groups(self.pattern)[1] else self.pattern
        return self.model_copy(update={"rows": min(self.rows, 32), "pattern": pattern})

    def _prune(self, module: PreTrainedModel, matrices: list[Matrix], source: Artifact, ctx: Context) -> None:
        from importlib import import_module

        from compress.sparsity.subject import Subject

        batches = self._batches(source, ctx) if self.method in LOOKS_AT_ROWS else []
        subject = Subject(module, matrices, self._selection(), ctx.seed, batches, self.block, self.damping)
        import_module(f"compress.sparsity.{self.method}").prune(subject)

    def _selection(self) -> Selection:
        from compress.sparsity.choose import Selection

        pattern = None if self.pattern is None else self._groups(self.pattern)
        return Selection(self.fraction, self.scope or ("row" if self.method == "wanda" else "global"), pattern)

    def _batches(self, source: Artifact, ctx: Context) -> list[dict[str, Tensor]]:
        from compress.pruning import scoring_batches

        batches = scoring_batches(source, ctx, self.rows, batch_size=32)
        return [{name: value for name, value in batch.items() if name != "labels"} for batch in batches]

    def _check_pattern(self, keep: int, of: int) -> None:
        if keep >= of:
            raise ValueError(f"pattern {self.pattern}: {keep} of {of} leaves nothing to prune; write 2:4 for 2 of 4")
        if self.scope is not None:
            raise ValueError(f"scope {self.scope}: pattern {self.pattern} compares within its groups; leave scope out")
        if "embeddings" in self.also:
            raise ValueError(f"also: pattern {self.pattern} is one of inputs, and an embedding has none; use fraction")

    @staticmethod
    def _groups(pattern: str) -> tuple[int, int]:
        keep, of = pattern.split(":")
        return int(keep), int(of)
