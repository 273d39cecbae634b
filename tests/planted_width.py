"""Models whose states live in few directions, so that it is known which can go."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from assay.core.model.anatomy import Family
from assay.core.model.linear import transform
from assay.core.model.residual import stream_of


@torch.no_grad()
def plant_states(model: PreTrainedModel, family: Family, width: int) -> torch.Tensor:
    """Let all that writes states write into the span of the basis that is returned, [states, width]: the mean, where
    norms subtract it, and single dimensions. Scales of the norms are 1, so that what they give stays in the span."""
    stream = stream_of(model, family)
    basis = torch.eye(stream.tables[0].shape[1], dtype=torch.float64)[:, :width]
    if stream.mean is not None:
        basis[:, 0] = stream.mean
        basis = torch.linalg.qr(basis).Q
        basis[:, 0] = stream.mean  # qr may turn a sign
    into = basis @ basis.T
    for table in stream.tables:
        table.copy_(table.double() @ into)
    for writer in stream.writers:
        transform(writer, into, dim=0)
    for norm in stream.norms:
        norm.module.get_parameter("weight").fill_(1.0)
        if getattr(norm.module, "bias", None) is not None:
            shift = norm.module.get_parameter("bias")
            shift.copy_(into @ shift.double())
    return basis
