"""Contributions of heads: known values give known norms, on real weights those of a plain forward pass."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fake_models import Classifier, context, split
from scipy.stats import spearmanr

from assay.core.artifact import Artifact
from assay.core.errors import NotGiven
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import KeepHeads, KeepLayers, apply_edits
from assay.core.model.predict import TorchPredictor
from probe.flow.token_kinds import TokenKinds
from probe.heads.contributions import Brought, ContributionSums, lengths_of, rank_correlations, read_contributions
from probe.heads.maps import HeadList, Maps
from probe.heads.rarity import TokenCounts
from probe.probe import Findings
from probe.probes.attention import AttentionProbe
from probe.probes.attention_norms import AttentionNormsProbe

VOCABULARY = ["[SEP]", ".", "film", "story"]
TEXTS = ["the film was good .", "a dull story, and a long one", "great acting", "the film ."]
ROWS = split(TEXTS)
Make = Callable[..., Artifact]


def heads_of(count: int, causal: bool = False) -> HeadList:
    off = torch.zeros(count, dtype=torch.bool)
    return HeadList([(0, head) for head in range(count)], [count], off | causal, off)


def sums_of(weights: torch.Tensor, lengths: torch.Tensor, causal: bool = False, queries: int = 16) -> dict[str, Any]:
    """What is told of one head, of one text of [SEP] film . story; weights [4, 4], lengths [4]."""
    heads = heads_of(1, causal)
    ids = torch.tensor([[[0, 2, 1, 3]]])
    tokenizer = SimpleNamespace(all_special_ids=[0], decode=lambda ids: VOCABULARY[ids[0]])
    sums = ContributionSums(heads, TokenKinds(tokenizer, TokenCounts(torch.zeros(4).long())), queries)  # type: ignore
    sums.add(Brought(Maps([0], ids, ids == 0, weights[None, None], heads), lengths[None, None]))
    return sums.told()[0]


WEIGHTS = torch.tensor([[0.7, 0.1, 0.15, 0.05], [0.5, 0.2, 0.2, 0.1], [0.6, 0.2, 0.1, 0.1], [0.6, 0.1, 0.05, 0.25]])


def test_of_equal_values_contributions_are_as_the_weights() -> None:
    told = sums_of(WEIGHTS, torch.full((4,), 2.5))
    assert told["contribution"] == pytest.approx(told["weight"], abs=1e-6)
    assert told["weight"]["separators"] == pytest.approx(0.6, abs=1e-6)
    assert told["spearman_contribution"] == pytest.approx(1)
    assert told["spearman_length"] is None
    assert told["size"] == pytest.approx(2.5)


def test_a_value_of_nothing_brings_nothing_however_much_it_is_looked_at() -> None:
    told = sums_of(WEIGHTS, torch.tensor([0.0, 1.0, 1.0, 2.0]))
    assert (told["weight"]["separators"], told["contribution"]["separators"]) == (pytest.approx(0.6, abs=1e-6), 0)
    rest = WEIGHTS[:, 1:] * torch.tensor([1.0, 1.0, 2.0])
    assert told["contribution"]["punctuation"] == pytest.approx(float((rest[:, 1] / rest.sum(1)).mean()), abs=1e-6)
    assert told["spearman_length"] < 0


def test_a_head_that_brings_nothing_at_all_has_no_shares() -> None:
    told = sums_of(WEIGHTS, torch.zeros(4))
    assert set(told["contribution"].values()) == {None}
    assert told["size"] == 0
    assert told["weight"]["separators"] == pytest.approx(0.6, abs=1e-6)


def test_orders_are_those_of_what_a_token_sees() -> None:
    """In a causal head the third token has three to look at, the fourth four, and the others too few."""
    weights = torch.tensor([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.6, 0.3, 0.1, 0], [0.1, 0.2, 0.3, 0.4]])
    lengths = torch.tensor([1.0, 4.0, 3.0, 2.0])
    expected = [spearmanr(weights[at, : at + 1], lengths[: at + 1]).statistic for at in (2, 3)]
    assert sums_of(weights, lengths, causal=True)["spearman_length"] == pytest.approx(np.mean(expected))
    assert sums_of(weights, lengths, causal=True, queries=1)["spearman_length"] is None


def test_rank_correlations_are_those_of_scipy_ties_included() -> None:
    x, y = np.random.default_rng(0).integers(4, size=(2, 5, 7)).astype(float)
    assert rank_correlations(x, y) == pytest.approx([spearmanr(*each).statistic for each in zip(x, y, strict=True)])
    assert np.isnan(rank_correlations(np.ones(3), np.arange(3.0)))


def test_lengths_are_those_of_the_vectors_that_a_head_adds() -> None:
    values = torch.tensor([3.0, 4.0]).reshape(1, 1, 1, 2)
    assert lengths_of(values, torch.eye(3)[:, :2][None]) == 5
    assert lengths_of(values, torch.tensor([[[4.0, -3.0]]])) == 0


@torch.no_grad()
def test_contributions_are_those_of_a_plain_forward_pass_whatever_the_padding(tiny_artifact: Make) -> None:
    model = TorchPredictor(tiny_artifact(layers=2), 32)
    seen = 0
    for brought in read_contributions(model, HeadList.of(model), TEXTS):
        for row, sizes in zip(brought.maps.rows, brought.sizes, strict=True):
            torch.testing.assert_close(sizes, by_hand(model, TEXTS[row]), atol=1e-5, rtol=1e-4)
            seen += 1
    assert seen == len(TEXTS)


def by_hand(model: TorchPredictor, text: str) -> torch.Tensor:
    """[heads of both layers, tokens, tokens], vector by vector."""
    inputs = model.encoder.tokenizer(text, return_tensors="pt")
    out = model.module(**inputs, output_attentions=True, output_hidden_states=True)
    found = []
    for layer, states, weights in zip(model.module.bert.encoder.layer, out.hidden_states, out.attentions, strict=False):
        values = layer.attention.self.value(states[0])  # [tokens, heads * 8]
        for head in range(4):
            mine = slice(8 * head, 8 * head + 8)
            vectors = values[:, mine] @ layer.attention.output.dense.weight[:, mine].T  # [tokens, width]
            found.append((weights[0, head, :, :, None] * vectors[None]).norm(dim=-1))
    return torch.stack(found)


def test_shares_of_weight_are_those_of_the_attention_probe(tiny_artifact: Make) -> None:
    model = TorchPredictor(tiny_artifact(layers=2), 32)
    own, other = (probe.run(model, context(ROWS)).details for probe in (AttentionNormsProbe(), AttentionProbe()))
    expected = [head["separators"] for layer in other["layers"] for head in layer["heads"]]
    assert [head["weight"]["separators"] for head in own["heads"]] == pytest.approx(expected, abs=1e-5)


def run(model: TorchPredictor, teacher: TorchPredictor | None = None) -> Findings:
    return AttentionNormsProbe().run(model, context(ROWS, teacher=teacher or model))


def values(findings: Findings) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in findings.metrics}


def test_a_variant_is_compared_head_by_head_under_original_numbers(tiny_artifact: Make) -> None:
    teacher = TorchPredictor(tiny_artifact(), 32)
    same = TorchPredictor(tiny_artifact(), 32)
    edits = [KeepHeads({0: [1, 3]}), KeepLayers([0, 2], of=4)]
    apply_edits(same.module, edits, FAMILIES["bert"])
    same.layers, same.heads = (0, 2), ((1, 3), (0, 1, 2, 3))
    same.artifact = SimpleNamespace(  # type: ignore[assignment]
        key="cut", family="bert", path=same.artifact.path, config=same.artifact.config, edits=edits
    )
    findings = run(same, teacher)
    assert [(head["layer"], head["head"]) for head in findings.details["heads"]] == [
        (0, 1), (0, 3), (2, 0), (2, 1), (2, 2), (2, 3),
    ]  # fmt: skip
    assert findings.details["teacher"]["separator"]["n"] == 6
    assert values(findings)["separator_contribution_change"] != 0
    full = run(teacher).details["heads"]
    mine = findings.details["heads"][0]  # the first layer reads what the teacher's does
    assert mine["contribution"] == pytest.approx(full[1]["contribution"], abs=1e-5)
    assert mine["size"] == pytest.approx(full[1]["size"], rel=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5"])
def test_heads_of_other_kinds_are_read(family: str, tiny_artifact: Make) -> None:
    """Fused maps, key/value heads of several heads, a decoder above an encoder: shares sum to 1, nothing is missing."""
    model = TorchPredictor(tiny_artifact(family, layers=2), 32)
    heads = run(model).details["heads"]
    assert len(heads) == 8
    for head in heads:
        assert sum(head["contribution"].values()) == pytest.approx(1, abs=1e-5)
        assert sum(head["weight"].values()) == pytest.approx(1, abs=1e-5)
        assert -1 <= head["spearman_length"] <= 1
        assert head["size"] > 0


def test_what_cannot_be_read_says_why(tiny_artifact: Make) -> None:
    with pytest.raises(NotGiven, match="no torch module"):
        AttentionNormsProbe().run(Classifier(lambda text: [0.0, 1.0]), context(ROWS))
    model = TorchPredictor(tiny_artifact("gpt2", layers=1), 32)
    findings = AttentionNormsProbe().run(model, context(split(["a"])))
    assert findings.skipped == "0 texts of two tokens or more, 0 heads"
