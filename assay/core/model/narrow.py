"""States between layers in a basis of their own, and narrower (Ashkboos et al. 2024, "SliceGPT: Compress Large Language
Models by Deleting Rows and Columns", https://arxiv.org/abs/2401.15024).

All that writes to the residual stream is multiplied by the basis Q [width, narrower] on its output, all that reads from
it on its input: with a square Q no output changes, which the paper calls computational invariance. Departures from the
paper: one Q serves the whole model, where SliceGPT has one a block and a matrix on each skip connection between two, so
that layers can still be taken out, repeated and compared; and norms need not become RMSNorm, since the first column of
Q is the mean, which they set to zero. A norm before the maps that read it hands its scale to them, as in the paper; one
that writes to the stream keeps it, as the matrix Q^T diag(scale) Q.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from assay.core.errors import AssayError
from assay.core.model.anatomy import Family
from assay.core.model.layout import Layout
from assay.core.model.linear import add_bias, linear_of, transform
from assay.core.model.residual import Norm, stream_of
from assay.core.model.rotated_norm import affine_of, rotated


def give_basis(module: PreTrainedModel, basis: Tensor) -> None:
    """Let the next `ReduceWidth` of a model with weights project its states on the columns of `basis` [width,
    narrower], which are orthonormal. Where norms subtract the mean, the first is the mean's (see `mean_direction`)."""
    module.basis = basis


def check_basis(module: PreTrainedModel, layouts: Sequence[Layout]) -> None:
    """AssayError unless the model was given the basis that these layouts need."""
    needed = [(old.width, new.width) for old, new in pairwise(layouts) if _narrows(old, new)]
    given = [] if (basis := getattr(module, "basis", None)) is None else [tuple(basis.shape)]
    if needed and needed != given:
        raise AssayError(f"reduce_width: needs a basis of shape {needed}, give_basis gave {given}")


def narrow(module: PreTrainedModel, family: Family, before: Layout, after: Layout, empty: bool = False) -> None:
    """Put the states of `module` into the basis that it was given, in place, where `after` asks for that. `empty`: the
    weights mean nothing yet, so any basis does."""
    if not _narrows(before, after):
        return
    if empty:
        module.basis = torch.zeros(before.width, after.width)
    change_basis(module, family, module.__dict__.pop("basis"))


@torch.no_grad()
def change_basis(module: PreTrainedModel, family: Family, basis: Tensor) -> None:
    """Multiply all that writes to the stream, reads from it and normalises it by `basis`, in place."""
    stream = stream_of(module, family)
    for norm in stream.norms:
        _rotate_norm(norm, basis)
    if stream.last_norm is not None:
        _project_output(stream.last_norm, basis)
    for table in stream.tables:
        _replace_everywhere(module, table, basis)
    for writer in stream.writers:
        transform(writer, basis, dim=0)
    for reader in stream.readers:
        transform(reader, basis, dim=1)


def _narrows(before: Layout, after: Layout) -> bool:
    return before.rotations != after.rotations


def _rotate_norm(norm: Norm, basis: Tensor) -> None:
    """Its scale and shift go to the maps that alone read it, where there are such."""
    scale, shift = affine_of(norm.module)
    for reader in norm.read_by:
        if shift is not None:
            add_bias(reader, shift)
        if scale is not None:
            transform(reader, scale, dim=1)
    norm.owner.set_submodule(norm.path, rotated(norm.module, basis, folded=bool(norm.read_by)))


def _project_output(norm: Norm, basis: Tensor) -> None:
    """Let a norm of states that are not of the stream give its outputs in the basis."""
    pair = norm.module
    if not isinstance(pair, nn.Sequential):
        weight = pair.get_parameter("weight")
        pair = nn.Sequential(pair, linear_of(torch.eye(len(weight)).to(weight), None, weight.requires_grad))
        norm.owner.set_submodule(norm.path, pair)
    transform(pair[1], basis, dim=0)


def _replace_everywhere(module: nn.Module, old: nn.Parameter, basis: Tensor) -> None:
    """Put the rows of a table in the basis, under whatever names it is held."""
    new = nn.Parameter((old.double() @ basis.double()).to(old.dtype), requires_grad=old.requires_grad)
    for part in module.modules():
        if getattr(part, "weight", None) is old:
            part.weight = new
            setattr(part, "embedding_dim" if isinstance(part, nn.Embedding) else "in_features", new.shape[1])
