"""Many batches at once give what each gives alone, on copies that share the weights and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from assay.core.artifact import Artifact
from assay.core.errors import InputError
from assay.core.model.ablate import Cut, logits_without
from assay.core.model.ablate_batches import logits_without_of_each, with_same_weights
from assay.core.model.anatomy import FAMILIES
from assay.core.model.blocks import blocks_of
from assay.core.model.edit import Edit
from assay.core.model.edits import KeepHeads, apply_edits
from assay.core.model.encoder import Encoder
from assay.core.model.factor_edits import FactoriseEmbedding
from assay.core.model.load import load_module, load_tokenizer
from assay.core.model.masks import mask_neurons
from assay.core.model.predict import tensors
from assay.core.model.share_edit import ShareLayers

MakeArtifact = Callable[..., Artifact]
TEXTS = ["the film was good", "bad", "a very long story about a man and a woman and a dog", "the man", "a dog was bad"]


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def batches_of(artifact: Artifact, rows: int) -> list[dict[str, torch.Tensor]]:
    return [tensors(inputs) for _, inputs in Encoder(load_tokenizer(artifact), 32).batches(TEXTS, rows)]


def test_each_batch_gets_its_own_answers_in_order(tiny_artifact: MakeArtifact, two_threads: None) -> None:
    artifact, family = tiny_artifact(layers=2), FAMILIES["bert"]
    model, batches = load_module(artifact, "sdpa"), batches_of(artifact, rows=1)
    cuts = [*(Cut(layer, "heads", (head,)) for layer in (0, 1) for head in range(4)), Cut(0, "layer")]
    found = list(logits_without_of_each(model, family, batches, cuts))
    expected = [logits_without(model, family, inputs, cuts) for inputs in batches]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    assert len({round(cut.sum().item(), 3) for _, cut in expected}) == len(TEXTS)  # no batch has another's answers
    assert torch.get_num_threads() == 2


def test_what_is_wrong_in_a_thread_is_said(tiny_artifact: MakeArtifact, two_threads: None) -> None:
    artifact = tiny_artifact("bart")
    found = logits_without_of_each(load_module(artifact), FAMILIES["bart"], batches_of(artifact, 1), [Cut(0, "layer")])
    with pytest.raises(InputError, match="only where one stack lists each of its layers"):
        next(found)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("bert", ShareLayers([[0, 1], [2, 3]])),
        ("bert", FactoriseEmbedding(8)),  # the rest have hooks of their own
        ("mpnet", KeepHeads({1: [0, 3]})),
        ("llama", KeepHeads({1: [0, 1, 2]})),
    ],
    ids=["shared layers", "factored embedding", "position bias", "uneven groups"],
)
def test_a_copy_has_the_same_weights_and_hooks_of_its_own(name: str, edit: Edit, tiny_artifact: MakeArtifact) -> None:
    artifact, family = tiny_artifact(name), FAMILIES[name]
    model = load_module(artifact)
    apply_edits(model, [edit], family)
    copy, (inputs,) = with_same_weights(model), batches_of(artifact, len(TEXTS))
    assert all(one is other for one, other in zip(model.parameters(), copy.parameters(), strict=True))
    assert not set(model.modules()) & set(copy.modules())
    with torch.no_grad():
        before = model(**inputs).logits
        torch.testing.assert_close(copy(**inputs).logits, before, atol=0, rtol=0)
        with mask_neurons(copy, family, [torch.zeros(48)] * len(blocks_of(copy, family))):
            torch.testing.assert_close(model(**inputs).logits, before, atol=0, rtol=0)
            assert (copy(**inputs).logits - before).abs().max() > 1e-3  # the control: a hook on a copy does something
