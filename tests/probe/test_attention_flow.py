"""Rollout and flow: known maps give known shares, whatever the padding, under original numbers; no flow is greater."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from by_family import case
from fake_models import Reader, Vocabulary, context, split
from scipy.optimize import linprog
from tiny_models import write_tiny

from assay.core.artifact import Artifact, open_source
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import KeepHeads, KeepLayers, apply_edits
from assay.core.model.predict import TorchPredictor
from probe.flow.rollout import flow, rollouts, with_residual
from probe.flow.token_kinds import KINDS, TokenKinds
from probe.heads.rarity import TokenCounts
from probe.probe import Findings
from probe.probes.attention_flow import AttentionFlowProbe

VOCABULARY = ["<s>", ".", "the", "film", "was", "odd", "##ly"]
TEXTS = ["the film was odd .", "the film .", "the was the film odd"]


WORDS = Vocabulary(VOCABULARY)


class WordsReader(Reader):
    """`attend` as in `Reader`, with the ids of the words."""

    encoder = WORDS


def uniform(n: int) -> torch.Tensor:
    return torch.full((n, n), 1 / n)


def to_next(n: int) -> torch.Tensor:
    return torch.eye(n).roll(1, dims=1)


def run(
    attend: Callable[[int], list[torch.Tensor]],
    padding: int = 0,
    left: bool = False,
    layers: tuple[int, ...] = (1, 4),
    teacher: Reader | None = None,
) -> tuple[Findings, Reader]:
    heads = tuple(tuple(range(len(layer))) for layer in attend(2))
    model = WordsReader(attend=attend, layers=layers, heads=heads, padding=padding, left=left)
    return AttentionFlowProbe().run(model, context(split(TEXTS), teacher=teacher or model)), model


def test_attention_to_oneself_gives_oneself_and_even_attention_what_is_counted_by_hand() -> None:
    assert with_residual(torch.eye(4).expand(3, 4, 4)).equal(torch.eye(4).double())
    one = with_residual(uniform(4)[None])
    below, both = rollouts([one, one])
    assert below[0].tolist() == [0.5 + 1 / 8, *[1 / 8] * 3]
    assert both[0].tolist() == pytest.approx([1 / 4 + 3 / 16, *[3 / 16] * 3])  # (I + J)^2 / 4 = I / 4 + 3 J / 4
    assert both.sum(1).tolist() == pytest.approx([1] * 4)


def test_heads_are_averaged_and_layers_multiplied_from_the_top() -> None:
    first, second = torch.eye(3)[[1, 1, 1]], torch.eye(3)[[2, 2, 2]]  # all look at one token
    mixed = with_residual(torch.stack([first, second]))
    assert mixed[0].tolist() == [0.5, 0.25, 0.25]
    _, through = rollouts([with_residual(first[None]), with_residual(second[None])])
    assert through[0].tolist() == [0.25, 0.5, 0.25]  # half of the way over 2, half of that goes on to 1


def by_linear_program(maps: np.ndarray, place: int, token: int) -> float:
    """The greatest flow, as the linear program that it is."""
    layers, n, _ = maps.shape
    edges = [(layer, i, j) for layer in range(layers) for i in range(n) for j in range(n)]
    value = [-1.0 if layer == 0 and j == token else 0.0 for layer, _, j in edges]
    keep = [
        [(at == layer and i == node) - (at == layer + 1 and j == node) + 0.0 for at, i, j in edges]
        for layer in range(layers - 1)
        for node in range(n)
    ]
    limits = [(0, maps[layer, i, j] if layer < layers - 1 or i == place else 0) for layer, i, j in edges]
    return -float(linprog(value, A_eq=keep, b_eq=np.zeros(len(keep)), bounds=limits).fun)


def test_the_flow_to_each_token_is_the_greatest_there_is() -> None:
    rng = np.random.default_rng(3)
    maps = np.stack([(rng.dirichlet([0.2] * 4, size=4) + np.eye(4)) / 2 for _ in range(3)])
    expected = np.array([by_linear_program(maps, 1, token) for token in range(4)])
    assert flow(maps, 1) == pytest.approx(expected / expected.sum(), abs=1e-5)
    assert flow(np.eye(4)[None].repeat(2, 0), 2).tolist() == [0, 0, 1, 0]
    even = with_residual(uniform(4)[None]).numpy()
    assert flow(even[None], 0) == pytest.approx(even[0])  # one layer: its own weights


def test_known_attention_gives_known_shares_and_distance() -> None:
    """The first token looks at itself alone, then at the next: half of it is of the next token, one away."""
    found, _ = run(lambda n: [torch.eye(n)[None], to_next(n)[None]])
    rollout = found.details["rollout"]
    assert rollout["separators"]["mean"] == pytest.approx(0.5)
    assert rollout["common_words"]["mean"] == pytest.approx(0.5)  # "the" and "film" are half of the words
    assert rollout["other_words"]["mean"] == rollout["punctuation"]["mean"] == 0
    assert rollout["distance"]["mean"] == pytest.approx(0.5)
    assert [each["layer"] for each in found.details["by_layer"]] == [1, 4]
    assert found.details["by_layer"][0]["separators"]["mean"] == 1
    assert found.details["last_layer"]["common_words"]["mean"] == 1
    assert found.details["even"]["separators"]["mean"] == pytest.approx(np.mean([2 / 7, 2 / 5, 2 / 7]))
    values = {metric.name: metric.value for metric in found.metrics}
    assert values["rollout_common_words"] == pytest.approx(0.5)
    assert "rollout_teacher_spearman" not in values


def uneven(n: int) -> list[torch.Tensor]:
    weights = torch.rand(3, n, n, generator=torch.Generator().manual_seed(n)).softmax(-1)
    return [weights[:1], weights[1:]]


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing_and_heads_may_be_uneven(left: bool) -> None:
    assert run(uneven, padding=7, left=left)[0] == run(uneven)[0]


def test_a_variant_without_a_layer_keeps_numbers_and_is_compared_with_the_teacher() -> None:
    full, teacher = run(uneven)
    same, _ = run(uneven, teacher=teacher)
    short, _ = run(lambda n: uneven(n)[1:], layers=(4,), teacher=teacher)
    assert full.details["teacher"] is None
    assert same.details["teacher"]["rollout"]["spearman"] == pytest.approx(1)
    agreement = short.details["teacher"]
    assert [each["layer"] for each in short.details["by_layer"]] == [4]
    assert agreement["rollout"]["spearman"] < 1
    assert agreement["last_layer"]["spearman"] == pytest.approx(1)
    assert (agreement["left_out"], agreement["rollout"]["n"]) == (0, 3)
    assert short.details["rollout_and_last_layer"]["spearman"] > full.details["rollout_and_last_layer"]["spearman"]


def test_a_layer_whose_heads_are_all_gone_moves_nothing() -> None:
    gone, _ = run(lambda n: [uneven(n)[0], torch.zeros(0, n, n)])
    alone, _ = run(lambda n: uneven(n)[:1], layers=(1,))
    assert gone.details["rollout"] == alone.details["rollout"]
    assert gone.details["by_layer"] == alone.details["by_layer"]


def test_kinds_of_tokens_come_from_the_counts() -> None:
    counts = TokenCounts(torch.tensor([50, 30, 6, 5, 1, 1, 1]))
    kinds = TokenKinds(WORDS.tokenizer, counts)  # type: ignore[arg-type]
    ids = torch.arange(7)
    told = [KINDS[at] for at in kinds.of(ids, ids == 0)]
    assert told == ["separators", "punctuation", "common_words", "common_words", *["other_words"] * 3]
    assert kinds.common == {2, 3}  # 6 of 14 words are not half, 11 are more
    nothing = TokenKinds(WORDS.tokenizer, TokenCounts(torch.zeros(0, dtype=torch.int64)))  # type: ignore[arg-type]
    assert nothing.common == frozenset()


def test_no_texts_are_skipped_with_a_reason() -> None:
    model = WordsReader(attend=uneven, layers=(1, 4), heads=((0,), (0, 1)))
    found = AttentionFlowProbe().run(model, context(split([]), train=split(TEXTS), teacher=model))
    assert found.skipped == "0 of 0 texts have two tokens and attention over them"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("tiny") / "bert"
    write_tiny(folder, layers=3)
    return open_source(folder, "text-classification")


def test_a_pruned_model_is_followed_through_the_heads_and_layers_it_has(artifact: Artifact) -> None:
    """The rollout of one text is the product of the maps that transformers gives, here without layer 1."""
    pruned = TorchPredictor(artifact, 32)
    edits = [KeepHeads({0: [1, 3], 1: [0, 1, 2, 3], 2: [2]}), KeepLayers([0, 2], 3)]
    layout = apply_edits(pruned.module, edits, FAMILIES["bert"])
    pruned.layers = tuple(layer.index for layer in layout.layers)
    pruned.heads = tuple(layer.heads for layer in layout.layers)
    pruned.artifact = replace(artifact, key="pruned")
    text = "the film was a great story"
    about = context(split([text]), teacher=TorchPredictor(artifact, 32))
    found = AttentionFlowProbe().run(pruned, about).details
    (ids,) = pruned.encoder.ids([text])
    with torch.no_grad():
        weights = pruned.module(torch.tensor([ids]), output_attentions=True).attentions
    expected = torch.eye(len(ids))
    for each in weights:
        expected = (each[0].mean(0) + torch.eye(len(ids))) / 2 @ expected
    assert [each["layer"] for each in found["by_layer"]] == [0, 2]
    assert found["rollout"]["separators"]["mean"] == pytest.approx(float(expected[0, [0, -1]].sum()), abs=1e-5)
    assert found["teacher"]["rollout"]["n"] == 1


FAMILIES_READ = [case("gpt2", slow=False), case("llama", slow=True), case("bart", slow=False), case("t5", slow=True)]


@pytest.mark.parametrize("family", FAMILIES_READ)
def test_a_causal_model_is_followed_from_its_last_token(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("causal") / family
    write_tiny(folder, family, layers=2)
    model = TorchPredictor(open_source(folder, "text-classification"), 32)
    texts = ["the film was great .", "the story", "a dull film with great music ,"]
    found = AttentionFlowProbe().run(model, context(split(texts), teacher=model)).details
    assert found["n_rows"] == 3
    stacks = 1 if family in ("bart", "t5") else 2  # of their two layers one is the encoder's
    assert len(found["by_layer"]) == stacks
    ids = model.encoder.ids(texts)
    assert found["even"]["distance"]["mean"] == pytest.approx(np.mean([(len(own) - 1) / 2 for own in ids]))
    total = sum(found["rollout"][kind]["mean"] for kind in KINDS)
    assert total == pytest.approx(1)
