"""The weight matrices that can be pruned, each with its place in the model.

By default those of the layers: queries, keys, values, attention output and feed-forward. What lies outside the layers,
the word embedding and the classification head, is named on purpose.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from assay.core.artifact import Artifact
from assay.core.model.anatomy import family_of
from assay.core.model.blocks import blocks_of
from assay.core.model.edits import layout_of
from assay.core.model.linear import matrix

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Outside = Literal["embeddings", "head"]
LINEAR = (nn.Linear, Conv1D)


@dataclass(frozen=True)
class Matrix:
    """`layer` is the original number of the layer and `path` the place in it; outside the layers, None and the place in
    the model. `name` is the parameter's name in the model."""

    layer: int | None
    path: str
    name: str
    module: nn.Module

    @property
    def parameter(self) -> nn.Parameter:
        """As the model holds it, which may be [in, out]."""
        return self.module.get_parameter("weight")

    @property
    def weight(self) -> Tensor:
        """[out, in] without gradient (of an embedding, [tokens, width]): a view, so that writing to it changes the
        model."""
        held = self.parameter if isinstance(self.module, nn.Embedding) else matrix(self.module)
        return held.detach()

    @property
    def label(self) -> str:
        """`2.attention.self.query`, by original number, or the path outside the layers."""
        return self.path if self.layer is None else f"{self.layer}.{self.path}"

    @property
    def group(self) -> int | str:
        """Equal for the matrices of one layer; one of its own outside."""
        return self.path if self.layer is None else self.layer


def prunable(module: PreTrainedModel, artifact: Artifact, also: Collection[Outside] = ()) -> list[Matrix]:
    """The linear maps of all layers from bottom to top, then what `also` names. A map that layers share stands once,
    under the lowest of them. `module` is the live model of `artifact`."""
    family = family_of(artifact.family)
    found: dict[nn.Module, Matrix] = {}
    numbers = [layer.index for layer in layout_of(artifact.config, artifact.edits).layers]
    for number, block in zip(numbers, blocks_of(module, family), strict=True):
        for path, part in block.module.named_modules():
            if isinstance(part, LINEAR):
                found.setdefault(part, Matrix(number, path, f"{block.path}.{path}.weight", part))
    path = family.word_embeddings
    if "embeddings" in also and path is not None:
        found[module.get_submodule(path)] = _outside(path, module.get_submodule(path))
    if "head" in also:
        found |= {part: _outside(path, part) for path, part in _linear_maps(module) if _lies_in(path, family.head)}
    return list(found.values())


def left_out(module: nn.Module, matrices: Collection[Matrix]) -> list[str]:
    """Paths of the linear maps and embeddings that are not among `matrices`."""
    chosen = {each.module for each in matrices}
    parts = module.named_modules()
    return [path for path, part in parts if isinstance(part, (*LINEAR, nn.Embedding)) and part not in chosen]


def zeros_by_matrix(matrices: Collection[Matrix]) -> dict[str, Any]:
    """`fraction` of all the weights that is exactly zero, how many (`zeros`, of `weights`), and the share of each
    matrix under `by_matrix`."""
    counts = {each.label: (_zeros(each.weight), each.weight.numel()) for each in matrices}
    zeros, weights = (sum(column) for column in zip(*counts.values(), strict=True))
    shares = {label: zero / of for label, (zero, of) in counts.items()}
    return {"fraction": zeros / weights, "zeros": zeros, "weights": weights, "by_matrix": shares}


def _zeros(weight: Tensor) -> int:
    return weight.numel() - int(weight.count_nonzero())


def _outside(path: str, part: nn.Module) -> Matrix:
    return Matrix(None, path, f"{path}.weight", part)


def _linear_maps(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(path, part) for path, part in module.named_modules() if isinstance(part, LINEAR)]


def _lies_in(path: str, parents: Collection[str]) -> bool:
    return any(f"{path}.".startswith(f"{parent}.") for parent in parents)
