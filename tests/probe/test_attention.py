import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from by_family import case
from fake_models import Classifier, PatchReader, Reader, Vocabulary, context, split
from tiny_images import paths_of, write_images

from assay.core.artifact import Artifact
from assay.core.errors import AssayError, NotGiven
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import KeepCrossHeads, apply_edits
from assay.core.model.predict import TorchPredictor
from probe.probe import Findings
from probe.probes.attention import AttentionProbe

TEXTS = ["a b", "a b c d e f", "", "a"]  # 4, 8, 2 and 3 tokens
TOKENS = 17
WORDS = Vocabulary(["<s>", "a", "b", "c", "d", "e", "f", ".", "...", "it's"])


def uniform(n: int) -> torch.Tensor:
    return torch.full((n, n), 1 / n)


def to_next(n: int) -> torch.Tensor:
    return torch.eye(n).roll(1, dims=1)  # the last token looks at the first, n - 1 away


def to_previous(n: int) -> torch.Tensor:
    return torch.eye(n)[(torch.arange(n) - 1).clamp(min=0)]  # the first token looks at itself


def to_first(n: int) -> torch.Tensor:
    return torch.eye(n)[:1].repeat(n, 1)


def planted(n: int) -> list[torch.Tensor]:
    return [torch.stack([uniform(n), to_next(n)]), torch.stack([to_first(n), uniform(n), torch.eye(n)])]


def run(padding: int = 0, left: bool = False, texts: list[str] = TEXTS, attend=planted) -> Findings:  # type: ignore[no-untyped-def]
    model = Reader(attend=attend, layers=(1, 4), heads=((0, 3), (2, 5, 7)), padding=padding, left=left)
    model.encoder = WORDS
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
    assert (found[1, 3]["same"], found[1, 3]["next"]) == (0, 1)
    assert found[1, 3]["previous"] == pytest.approx(1 / (TOKENS - 4))  # of two tokens the second looks at the first
    assert found[1, 0]["same"] == pytest.approx(len(TEXTS) / TOKENS)  # 1 / n of each of n tokens
    assert found[4, 7]["same"] == 1


def two_heads(first: Callable[[int], torch.Tensor], second: Callable[[int], torch.Tensor]) -> Reader:
    model = Reader(lambda text: [[0.0]], lambda n: [torch.stack([first(n), second(n)])], (0,), ((0, 1),), padding=3)
    model.encoder = WORDS
    return model


def test_a_head_that_looks_back_by_one_does_so_from_every_token_that_can() -> None:
    """The first token of each text has none before it, and does not count; were it to, the share would be below 1."""
    findings = AttentionProbe().run(two_heads(to_previous, uniform), context(split(TEXTS)))
    back, even = heads(findings).values()
    assert (back["previous"], back["next"]) == (1, 0)
    assert back["same"] == pytest.approx(len(TEXTS) / TOKENS)
    lengths = [len(text.split()) + 2 for text in TEXTS]
    beside = sum((n - 1) / n for n in lengths) / sum(n - 1 for n in lengths)
    assert even["previous"] == even["next"] == pytest.approx(beside)


def test_even_attention_is_on_punctuation_as_often_as_there_is_some() -> None:
    """An apostrophe within a word makes no punctuation, and separators are none either."""
    texts = ["a . b ...", "it's a", "c ."]
    to_third = lambda n: torch.eye(n)[2:3].repeat(n, 1)  # noqa: E731
    even, third = heads(AttentionProbe().run(two_heads(uniform, to_third), context(split(texts)))).values()
    assert even["punctuation"] == pytest.approx(3 / 14)
    assert even["separators"] == pytest.approx(6 / 14)
    assert third["punctuation"] == pytest.approx((6 + 4) / 14)  # of the first text and the last


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
    together = heads(run(texts=many, padding=4))[4, 5]
    for name, aside in {"entropy": 0, "separators": 0, "same": 0, "previous": 1, "next": 1}.items():
        seen = [n - aside for n in tokens]
        mean = sum(n * found[4, 5][name] for n, found in zip(seen, one_each, strict=True)) / sum(seen)
        assert together[name] == pytest.approx(mean)


def test_headlines_are_means_over_all_heads() -> None:
    findings = run()
    found = heads(findings).values()
    assert [(metric.name, metric.unit) for metric in findings.metrics] == [
        ("mean_entropy", "nats"),
        ("mean_distance", "tokens"),
        ("separator_share", "fraction"),
        ("punctuation_share", "fraction"),
        ("same_token_share", "fraction"),
        ("previous_token_share", "fraction"),
        ("next_token_share", "fraction"),
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
    assert run(texts=[]).skipped == "0 of 0 rows have two tokens or more and attention over them"


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
        assert head["previous"] == pytest.approx(float(row.diagonal(-1).mean()), abs=1e-5)
        assert head["next"] == pytest.approx(float(row.diagonal(1).mean()), abs=1e-5)
    assert "cross_mean_entropy" in {metric.name for metric in findings.metrics}
    assert findings.details["cross"] != alone


def test_a_model_of_one_stack_has_no_cross_attention() -> None:
    found = run()
    assert found.details["cross"] == []
    assert not any(metric.name.startswith("cross") for metric in found.metrics)


@pytest.mark.parametrize(("family", "start"), [("gpt2", 0), ("bart", 1)])
def test_decoders_look_back_alone_and_see_the_tokens_that_they_read(
    family: str, start: int, tiny_artifact: Callable[..., Artifact]
) -> None:
    """Above an encoder they read each token one place late, behind a start token."""
    model, text = TorchPredictor(tiny_artifact(family, layers=2), 32), "the film . was great ! ! a"
    tokenizer, (ids,) = model.encoder.tokenizer, model.encoder.ids([text])
    alone, among = (
        AttentionProbe().run(model, context(split(texts))) for texts in ([text], [text, "a film", text, "a"])
    )
    assert among.details["n_rows"] > alone.details["n_rows"] == 1
    with torch.no_grad():
        out = model.module(torch.tensor([ids]), output_attentions=True)
    weights = (out.decoder_attentions if start else out.attentions)[-1][0]
    read = [model.module.config.decoder_start_token_id, *ids[:-1]] if start else ids
    special = torch.tensor([token in tokenizer.all_special_ids for token in read])
    signs = torch.tensor([not any(map(str.isalnum, tokenizer.decode([token]))) for token in read]) & ~special
    assert 0 < signs.sum() < len(read)
    for head, row in zip(alone.details["layers"][-1]["heads"], weights, strict=True):
        assert head["next"] == 0
        assert head["previous"] == pytest.approx(float(row.diagonal(-1).mean()), abs=1e-5)
        assert head["same"] == pytest.approx(float(row.diagonal().mean()), abs=1e-5)
        assert head["punctuation"] == pytest.approx(float(row[:, signs].sum(1).mean()), abs=1e-5)
        assert head["separators"] == pytest.approx(float(row[:, special].sum(1).mean()), abs=1e-5)


ROWS, COLUMNS, OWN = 3, 6, 2


def to_patch(down: int, right: int) -> Callable[[int], torch.Tensor]:
    """Each patch looks at the one so far off, and where there is none at the class token, as the model's own do."""

    def target(at: int) -> int:
        row, column = at // COLUMNS + down, at % COLUMNS + right
        return OWN + row * COLUMNS + column if 0 <= row < ROWS and 0 <= column < COLUMNS else 0

    return lambda n: torch.eye(n)[[0] * OWN + [target(at) for at in range(n - OWN)]]


def of_images(*attend: Callable[[int], torch.Tensor]) -> Findings:
    model = PatchReader(ROWS, COLUMNS, OWN, lambda n: [torch.stack([each(n) for each in attend])])
    return AttentionProbe().run(model, context(split(["a.png", "b.png"]), task="image-classification"))


def test_the_patch_above_is_one_away_and_not_a_whole_row() -> None:
    half = lambda n: (to_patch(-1, 0)(n) + to_first(n)) / 2  # noqa: E731
    above, across, halved, on_class = heads(of_images(to_patch(-1, 0), to_patch(1, 1), half, to_first)).values()
    assert (above["distance"], above["above"], above["below"]) == (1, 1, 0)
    assert above["separators"] == pytest.approx((OWN + COLUMNS) / (OWN + ROWS * COLUMNS))
    assert across["distance"] == pytest.approx(math.sqrt(2))
    assert across["above"] == across["left"] == across["same"] == 0
    assert (halved["distance"], halved["above"]) == (1, 0.5)  # what is on the class token is neither near nor far
    assert (on_class["distance"], on_class["separators"]) == (None, 1)


def test_beside_a_patch_is_what_is_beside_it_in_its_row() -> None:
    left, order, even = heads(of_images(to_patch(0, -1), to_previous, uniform)).values()
    assert (left["left"], left["distance"]) == (1, 1)
    assert order["left"] == 1  # of all that have one there
    assert order["distance"] > 1.4  # from the first of a row to the last of the one above it
    at = torch.cartesian_prod(torch.arange(ROWS), torch.arange(COLUMNS)).double()
    assert even["distance"] == pytest.approx(float(torch.cdist(at, at).mean()))
    assert even["same"] == even["below"] == pytest.approx(1 / (OWN + ROWS * COLUMNS))


def test_images_have_patches_and_no_punctuation() -> None:
    findings = of_images(to_first, to_patch(0, 1))
    assert "punctuation" not in heads(findings)[0, 0]
    values = {metric.name: (metric.value, metric.unit) for metric in findings.metrics}
    assert values["mean_distance"] == (1, "patches")  # of the head that looks at patches
    assert values["right_patch_share"] == (0.5, "fraction")
    assert not any("token" in name or "punctuation" in name for name in values)


def test_the_grid_is_that_of_the_images_that_the_model_gets(
    tiny_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    artifact = tiny_artifact("dinov2", layers=1)
    settings = artifact.path / "preprocessor_config.json"
    wide = json.loads(settings.read_text()) | {"crop_size": {"height": 16, "width": 40}}
    settings.write_text(json.dumps(wide))
    model, (path, *_) = TorchPredictor(artifact, 32), paths_of(write_images(tmp_path / "images", rows=2))
    found = heads(AttentionProbe().run(model, context(split([path]), task="image-classification")))
    with torch.no_grad():
        out = model.module(torch.from_numpy(model.encoder.pad([path])["pixel_values"]), output_attentions=True)
    at = torch.tensor([(row, column) for row in range(2) for column in range(5)]).float()
    for head, weights in zip(found.values(), out.attentions[0][0, :, 1:, 1:], strict=True):
        expected = float((weights * torch.cdist(at, at)).sum() / weights.sum())
        assert head["distance"] == pytest.approx(expected, abs=1e-4)
        by_number = float((weights * (torch.arange(10)[:, None] - torch.arange(10)).abs()).sum() / weights.sum())
        assert by_number > expected + 0.5
