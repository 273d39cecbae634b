"""Values stay, and what reaches a logit adds up to it, by Euler's theorem for a map that is linear in what it reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest
import torch
from by_family import families
from torch import Tensor, nn

from assay.core.artifact import Artifact
from assay.core.model.anatomy import FAMILIES
from assay.core.model.load import load_module
from compress.linearised import linearised

MakeArtifact = Callable[..., Artifact]


def logit_and_parts(model: nn.Module, inputs: dict[str, Tensor], rules: Any) -> tuple[Tensor, Tensor]:
    """The highest logit, and the sum of value times gradient over embeddings and biases, from which all else comes."""
    read: list[Tensor] = []
    tables = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    with ExitStack() as hooks, rules:
        for table in tables:
            hooks.callback(table.register_forward_hook(lambda part, args, output: read.append(output)).remove)
        logit = model(**inputs).logits.max()
    parts = read + [value for name, value in model.named_parameters() if name.endswith("bias")]
    slopes = torch.autograd.grad(logit, parts, allow_unused=True)  # biases of queries and keys have none
    shares = [(part * slope).sum() for part, slope in zip(parts, slopes, strict=True) if slope is not None]
    return logit, torch.stack(shares).sum()


@pytest.mark.parametrize("family", families("bert", "llama"))
def test_parts_add_up_to_the_logit_when_linearised_and_do_not_otherwise(
    family: str, tiny_artifact: MakeArtifact
) -> None:
    """BERT: activations, layer norms, biases. Llama: gates and root-mean-square norms."""
    model = load_module(tiny_artifact(family, layers=2))
    ids = torch.tensor([[5, 9, 12, 20, 30, model.config.eos_token_id]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    logit, parts = logit_and_parts(model, inputs, linearised(model, FAMILIES[family]))
    plain, others = logit_and_parts(model, inputs, nullcontext())
    torch.testing.assert_close(logit, plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(parts, logit, atol=1e-5, rtol=1e-4)
    assert (others - logit).abs() > 0.01
    again, _ = logit_and_parts(model, inputs, nullcontext())
    assert torch.equal(again, plain)  # nothing is left on the model
