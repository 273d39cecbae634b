import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from by_family import case
from fake_models import Classifier, Reader, context, split

from assay.core.artifact import Artifact
from assay.core.errors import AssayError, NotGiven
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import KeepCrossHeads, apply_edits
from assay.core.model.predict import TorchPredictor
from probe.probe import Findings
from probe.probes.attention import AttentionProbe

TEXTS = ["a b", "a b c d e f", "", "a"]  # 4, 8, 2 and 3 tokens
TOKENS = 17


def uniform(n: int) -> torch.Tensor:
    return torch.full((n, n), 1 / n)


def to_next(n: int) -> torch.Tensor:
    return torch.eye(n).roll(1, dims=1)  # the last token looks at the first, n - 1 away


def to_first(n: int) -> torch.Tensor:
    return torch.eye(n)[:1].repeat(n, 1)


def planted(n: int) -> list[torch.Tensor]:
    return [torch.stack([uniform(n), to_next(n)]), torch.stack([to_first(n), uniform(n), torch.eye(n)])]


def run(padding: int = 0, left: bool = False, texts: list[str] = TEXTS, attend=planted) -> Findings:  # type: ignore[no-untyped-def]
    model = Reader(attend=attend, layers=(1, 4), heads=((0, 3), (2, 5, 7)), padding=padding, left=left)
    return AttentionProbe().run(model, context(split(texts)))


def heads(findings: Findings) -> dict[tuple[int, int], dict[str, float]]:
    return {(layer["layer"], head["head"]): head for layer in findings.details["layers"] for head in layer["heads"]}


def test_planted_patterns_give_their_known_figures_under_original_numbers() -> None:
    found = heads(run())
    assert list(found) == [(1, 0), (1, 3), (4, 2), (4, 5), (4, 7)]
    lengths = [len(text.split()) + 2 for text in TEXTS]
    assert found[1, 0]["entropy"] == pytest.approx(sum(n * math.log(n) for n in lengths) / TOKENS)
    assert found[1, 0]["separators"] == pytest.approx(2 * len(TEXTS) / TOKENS)
    assert found[1, 3]["entropy"] == found[4, 2]["entropy"] == 0
    assert found[1, 3]["distance"] == pytest.approx(sum(2 * (n - 1) for n in lengths) / TOKENS)
    assert found[4, 2]["separators"] == 1
    assert found[4, 2]["distance"] == pytest.approx(sum(n * (n - 1) / 2 for n in lengths) / TOKENS)
    assert found[4, 7]["distance"] == 0


@pytest.mark.parametrize("n", [2, 5, 12])
@pytest.mark.parametrize("padding", [0, 7])
def test_uniform_attention_over_n_tokens_has_entropy_log_n_whatever_the_padding(n: int, padding: int) -> None:
    found = heads(run(padding, texts=["a " * (n - 2)]))
    assert found[1, 0]["entropy"] == pytest.approx(math.log(n))


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(left: bool) -> None:
    tight, wide = heads(run()), heads(run(padding=11, left=left))
    assert {key: pytest.approx(head) for key, head in tight.items()} == wide


def test_means_do_not_depend_on_how_rows_are_batched() -> None:
    many = [f"{'a ' * (i % 9)}b" for i in range(70)]  # three batches
    one_each = [heads(run(texts=[text])) for text in many]
    tokens = [len(text.split()) + 2 for text in many]
    mean = sum(n * found[4, 5]["entropy"] for n, found in zip(tokens, one_each, strict=True)) / sum(tokens)
    assert heads(run(texts=many))[4, 5]["entropy"] == pytest.approx(mean)


def test_headlines_are_means_over_all_heads() -> None:
    findings = run()
    found = heads(findings).values()
    assert [(metric.name, metric.unit) for metric in findings.metrics] == [
        ("mean_entropy", "nats"),
        ("mean_distance", "tokens"),
        ("separator_share", "fraction"),
    ]
    assert findings.metrics[0].value == pytest.approx(sum(head["entropy"] for head in found) / 5)
    assert findings.metrics[0].n == findings.details["n_rows"] == len(TEXTS)


def test_weights_that_leak_into_padding_or_do_not_sum_to_1_are_an_error() -> None:
    with pytest.raises(AssayError, match=r"does not sum to 1 \(off by 0.5\)"):
        run(attend=lambda n: [weights / 2 for weights in planted(n)])
    with pytest.raises(AssayError, match="does not sum to 1"):
        run(attend=lambda n: [weights * torch.nan for weights in planted(n)])


def test_attention_that_is_not_there_is_an_error_never_an_empty_map() -> None:
    with pytest.raises(AssayError, match=r"attention of \[\] heads a layer, not \[2, 3\]"):
        run(attend=None)
    with pytest.raises(AssayError, match=r"attention of \[2\] heads"):
        run(attend=lambda n: planted(n)[:1])


def test_a_predictor_without_states_is_told_so() -> None:
    with pytest.raises(NotGiven, match="logits only"):
        AttentionProbe().run(Classifier(lambda text: [1.0, 0.0]), context(split(TEXTS)))


def test_no_rows_is_skipped_with_a_reason() -> None:
    assert run(texts=[]).skipped == "0 tokens in 0 test rows, 5 heads"


@pytest.mark.parametrize("family", [case("bart", slow=False), case("t5", slow=True)])
def test_cross_attention_is_that_of_a_plain_pass_under_original_numbers(
    family: str, tiny_artifact: Callable[..., Artifact]
) -> None:
    artifact = tiny_artifact(family, layers=4)
    model, text = TorchPredictor(artifact, 32), "the film was a great story"
    edit = KeepCrossHeads({2: [1, 3], 3: [0]})
    apply_edits(model.module, [edit], FAMILIES[family])
    model.artifact = replace(artifact, edits=[edit.to_json()])
    (ids,) = model.encoder.ids([text])
    findings = AttentionProbe().run(model, context(split([text, "a film"])))
    alone = AttentionProbe().run(model, context(split([text]))).details["cross"]
    found = {(layer["layer"], head["head"]): head for layer in alone for head in layer["heads"]}
    assert list(found) == [(2, 1), (2, 3), (3, 0)]
    with torch.no_grad():
        weights = model.module(torch.tensor([ids]), output_attentions=True).cross_attentions
    for head, row in zip(found.values(), [*weights[0][0], *weights[1][0]], strict=True):
        assert head["entropy"] == pytest.approx(float(torch.special.entr(row).sum(-1).mean()), abs=1e-5)
        away = (torch.arange(len(ids))[:, None] - torch.arange(len(ids))).abs()
        assert head["distance"] == pytest.approx(float((row * away).sum(-1).mean()), abs=1e-4)
    assert "cross_mean_entropy" in {metric.name for metric in findings.metrics}
    assert findings.details["cross"] != alone


def test_a_model_of_one_stack_has_no_cross_attention() -> None:
    found = run()
    assert found.details["cross"] == []
    assert not any(metric.name.startswith("cross") for metric in found.metrics)
