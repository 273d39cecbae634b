"""Weights go where the others can make up for them best (Frantar & Alistarh 2023, "SparseGPT").

Keeps W x near what it was on the rows: column by column, what a weight contributed before it went is handed to the
columns on its right, by the inverse of H = X^T X + damping. Weights compete within blocks of columns; those of N:M
patterns in their groups. A weight to the left of one that goes is not changed any more, so the result is exactly least
squares on what stays only where all that goes lies left of all that stays; otherwise it is near it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from assay.core.errors import AssayError
from compress.sparsity.calibration import layer_by_layer
from compress.sparsity.choose import check_groups, lowest, off_pattern
from compress.sparsity.subject import Subject


def prune(subject: Subject) -> None:
    """In place, layer by layer. InputError where a pattern does not fit, AssayError where H has no inverse."""
    if subject.selection.pattern is not None:
        check_groups(subject.matrices, subject.selection.pattern[1])
    for each, moments in layer_by_layer(subject, outer):
        try:
            root = inverse_root(moments, subject.damping)
        except torch.linalg.LinAlgError:
            raise AssayError(
                f"{each.label}: the inputs of this map are too alike on the rows to weigh them against each other; "
                f"raise prune_weights.damping (now {subject.damping}) or rows"
            ) from None
        selection = subject.selection
        pruned = reconstruct(each.weight.float(), root, selection.fraction, selection.pattern, subject.block)
        each.weight.copy_(pruned)


def outer(rows: Tensor) -> Tensor:
    """[in, in]: X^T X of [tokens, in]."""
    return rows.T @ rows


def inverse_root(moments: Tensor, damping: float) -> Tensor:
    """Upper triangular U with U^T U = H^-1, H being X^T X [in, in] with `damping` times its mean diagonal added.

    The paper's code zeroes the weights of inputs that were always zero; here the damping alone makes them the cheapest.
    LinAlgError where H has no inverse."""
    hessian = moments + torch.eye(len(moments)) * damping * moments.diagonal().mean()
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    return torch.linalg.cholesky(inverse, upper=True)


def reconstruct(
    weight: Tensor, root: Tensor, fraction: float | None, pattern: tuple[int, int] | None, block: int
) -> Tensor:
    """The pruned weight [out, in]; `root` as from `inverse_root`. In each `block` of columns `fraction` of the weights
    goes, or all but N of every M; weights that are zero already stay so."""
    inputs = weight.shape[1]
    left, was_zero = weight.clone(), weight == 0
    if pattern is not None:
        block = -(-block // pattern[1]) * pattern[1]
    for start in range(0, inputs, block):
        end = min(start + block, inputs)
        errors = _prune_block(left[:, start:end], was_zero[:, start:end], root[start:end, start:end], fraction, pattern)
        left[:, end:] -= errors @ root[start:end, end:]
        left.masked_fill_(was_zero, 0)
    return left


def _prune_block(
    part: Tensor, was_zero: Tensor, root: Tensor, fraction: float | None, pattern: tuple[int, int] | None
) -> Tensor:
    """Prune the columns of `part` [out, block] in place, from left to right; returns the error each leaves to those on
    the right, in units of the diagonal, [out, block]."""
    gone = was_zero.clone()
    if pattern is None:
        assert fraction is not None
        gone |= _cheapest(part, was_zero, root, fraction)
    errors = torch.zeros_like(part)
    for column in range(part.shape[1]):
        if pattern is not None and column % pattern[1] == 0:
            group = slice(column, column + pattern[1])
            gone[:, group] |= off_pattern(_costs(part[:, group], root[group, group]), *pattern)
        before = part[:, column].clone()
        part[:, column].masked_fill_(gone[:, column], 0)
        errors[:, column] = (before - part[:, column]) / root[column, column]
        part[:, column + 1 :] -= errors[:, column, None] * root[column, column + 1 :]
        part[:, column + 1 :].masked_fill_(was_zero[:, column + 1 :], 0)
    return errors


def _cheapest(part: Tensor, was_zero: Tensor, root: Tensor, fraction: float) -> Tensor:
    costs = _costs(part, root).masked_fill(was_zero, -1)
    return lowest(costs.flatten(), round(fraction * costs.numel())).view(costs.shape)


def _costs(part: Tensor, root: Tensor) -> Tensor:
    """What the outputs lose with each weight when the others make up for it: w^2 / [H^-1]_jj of the columns left."""
    return part.square() / root.diagonal().square()
