"""What heads do: planted roles, shapes, likeness and trees are found, under original numbers, whatever the padding."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_models import PatchReader, Reader, WordEncoder, context, split

from assay.core.artifact import Artifact
from assay.core.errors import AssayError
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import DuplicateLayers, KeepHeads, KeepLayers, apply_edits
from assay.core.model.predict import TorchPredictor
from probe.heads.arrangement import arrange
from probe.heads.divergence import pair_divergences
from probe.heads.lost import lost_heads
from probe.heads.made_patterns import CLASSES, make_maps
from probe.heads.maps import HeadList, Maps, maps_of
from probe.heads.patterns import train_classifier
from probe.heads.places import Line, Places, Plane
from probe.heads.rarity import TokenCounts
from probe.heads.relations import is_followed
from probe.heads.roles import RoleSums
from probe.heads.trees import found_edges, gold_edges, spanning_trees
from probe.heads.word_attention import most_attended, word_attention
from probe.probe import Findings
from probe.probes.heads import HeadsProbe
from probe.treebank import Sentence

Attend = Callable[[int], list[torch.Tensor]]
WORDS = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]
TEXTS = [" ".join(WORDS[: 4 + at % 8]) for at in range(24)]


class Tokens(WordEncoder):
    """All tokens have one id, so none is rarer than another."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[1] * (len(text.split()) + 2) for text in texts]


def uniform(n: int) -> torch.Tensor:
    return torch.full((n, n), 1 / n)


def at_offset(n: int, offset: int) -> torch.Tensor:
    return torch.eye(n)[(torch.arange(n) + offset).clamp(0, n - 1)]


def to_end(n: int) -> torch.Tensor:
    return torch.eye(n)[-1:].repeat(n, 1)


def planted(n: int) -> list[torch.Tensor]:
    noisy = 0.6 * at_offset(n, -2) + 0.4 * uniform(n)
    return [torch.stack([uniform(n), at_offset(n, 1)]), torch.stack([to_end(n), noisy, at_offset(n, 0)])]


NUMBERS = ((1, (0, 3)), (4, (2, 5, 7)))


def reader(attend: Attend = planted, padding: int = 0, left: bool = False, numbers: object = NUMBERS) -> Reader:
    layers, heads = zip(*numbers, strict=True)  # type: ignore[call-overload]
    model = Reader(attend=attend, layers=layers, heads=heads, padding=padding, left=left)
    model.encoder = Tokens()  # type: ignore[attr-defined]
    return model


def run(model: Reader, full: Reader | None = None, **settings: object) -> Findings:
    return HeadsProbe(**settings).run(model, context(split(TEXTS), teacher=full or model))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found() -> Findings:
    return run(reader())


def heads(findings: Findings) -> dict[tuple[int, int], dict]:  # type: ignore[type-arg]
    return {(head["layer"], head["head"]): head for head in findings.details["heads"]}


def test_planted_roles_are_found_under_original_numbers_and_uniform_attention_has_none(found: Findings) -> None:
    told = heads(found)
    assert {at: head["roles"] for at, head in told.items()} == {
        (1, 0): [],
        (1, 3): ["positional"],
        (4, 2): ["separator"],
        (4, 5): ["positional"],
        (4, 7): ["positional"],
    }
    assert [told[at]["offset"] for at in ((1, 3), (4, 5), (4, 7))] == [1, -2, 0]
    assert told[1, 0]["offset_share"] == 0
    assert told[4, 2]["separators"] == pytest.approx(1)
    values = {metric.name: (metric.value, metric.n) for metric in found.metrics}
    assert values["positional_heads"] == (3, 5)
    assert values["without_role_heads"] == (1, 5)
    assert not any(name.startswith("lost") or "syntactic" in name for name in values)


def test_planted_shapes_and_likeness(found: Findings) -> None:
    told, details = heads(found), found.details
    shapes = [told[at]["pattern"] for at in told]
    assert shapes == ["heterogeneous", "diagonal", "vertical", "diagonal", "diagonal"]
    assert sum(told[4, 7]["patterns"].values()) == pytest.approx(1)
    assert details["pattern_classifier"][0]["accuracy"] > 0.9
    divergence = np.array(details["divergence"])
    assert (divergence == divergence.T).all()
    assert (divergence.diagonal() == 0).all()
    assert divergence[1, 4] == pytest.approx(math.log(2), rel=0.2)  # both look at the last token there
    assert 0 < divergence[0, 3] < divergence[0, 1]


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(left: bool, found: Findings) -> None:
    padded = run(reader(padding=9, left=left))
    assert padded.details == found.details
    assert padded.metrics == found.metrics


def test_weights_that_leak_into_padding_are_an_error() -> None:
    with pytest.raises(AssayError, match=r"does not sum to 1 \(off by 0.5\)"):
        run(reader(lambda n: [weights / 2 for weights in planted(n)]))
    with pytest.raises(AssayError, match=r"attention of \[2\] heads a layer, not \[2, 3\]"):
        run(reader(lambda n: planted(n)[:1]))


def test_the_heads_a_variant_lost_are_named_by_what_they_did_in_the_full_model() -> None:
    """Layer 4 lost heads 5 and 7; head 2, kept, looks evenly now."""
    pruned = reader(lambda n: [planted(n)[0], uniform(n)[None]], numbers=((1, (0, 3)), (4, (2,))))
    findings = run(pruned, reader())
    lost = findings.details["lost"]
    assert [(each["layer"], each["head"], each["roles"]) for each in lost["heads"]] == [
        (4, 5, ["positional"]),
        (4, 7, ["positional"]),
    ]
    assert {each["role"]: (each["lost"], each["kept"], each["still"]) for each in lost["by_role"]} == {
        "positional": (2, 1, 1),
        "separator": (0, 1, 0),
        "no role": (0, 1, 1),
    }
    values = {metric.name: (metric.value, metric.n) for metric in findings.metrics}
    assert values["lost_heads"] == (2, 5)
    assert values["lost_positional_heads"] == (2, 3)
    assert values["lost_separator_heads"] == (0, 1)


def test_all_heads_of_a_layer_that_is_gone_are_lost() -> None:
    full = [{"layer": layer, "head": 0, "roles": ["separator"] * layer} for layer in (0, 1)]
    assert lost_heads(full, full[1:], {}, {})["heads"] == full[:1]
    assert lost_heads(full, full, {}, {})["heads"] == []


def told(*layers: int, roles: Sequence[str] = ("positional",)) -> list[dict]:  # type: ignore[type-arg]
    return [{"layer": layer, "head": 0, "roles": list(roles)} for layer in layers]


def test_a_layer_of_which_a_repeat_is_left_is_not_lost() -> None:
    """Layer 6 repeats layer 1: either is enough, on both sides; without the repeat's number known it would be lost."""
    both = {"6": 1}
    assert lost_heads(told(0, 1), told(0, 6), {}, both)["heads"] == []
    assert lost_heads(told(0, 6), told(0, 1), both, {})["heads"] == []
    assert lost_heads(told(0, 1, 6), told(0, 1), both, {})["heads"] == []
    assert [head["layer"] for head in lost_heads(told(0, 1, 6), told(0), both, {})["heads"]] == [1, 6]
    assert [head["layer"] for head in lost_heads(told(0, 1), told(0, 6), {}, {})["heads"]] == [1]


def test_a_kept_head_has_the_roles_of_its_own_number_else_those_of_its_repeats() -> None:
    full, both = told(1), {"6": 1, "7": 1}
    own = [*told(1, roles=()), *told(6)]
    assert lost_heads(full, own, {}, both)["by_role"][0] == {
        "role": "positional", "of": 1, "lost": 0, "kept": 1, "still": 0,
    }  # fmt: skip
    assert lost_heads(full, [*told(6, roles=()), *told(7)], {}, both)["by_role"][0]["still"] == 1


def test_heads_of_a_model_of_which_only_the_repeat_is_left_are_there(tiny_artifact: Callable[..., Artifact]) -> None:
    source = tiny_artifact(layers=2)
    full = TorchPredictor(source, 32)
    edits = [DuplicateLayers([1], times=2, of=2), KeepLayers([0, 2], of=3)]
    variant = TorchPredictor(source, 32)
    apply_edits(variant.module, edits, FAMILIES["bert"])
    variant.layers = (0, 2)
    json = [edit.to_json() for edit in edits]
    variant.artifact = replace(source, key="repeat", edits=json)
    findings = (
        HeadsProbe().tiny().run(variant, context(split(TEXTS), teacher=full))
    )  # as many layers as the config says
    assert (findings.details["lost"]["heads"], findings.details["repeats"]) == ([], {"2": 1})
    assert {head["layer"] for head in findings.details["heads"]} == {0, 2}


def maps(weights: torch.Tensor, ids: list[int], special: list[bool]) -> Maps:
    """One row."""
    count = len(weights)
    listed = HeadList([(0, at) for at in range(count)], [count], *(torch.zeros(count, dtype=torch.bool),) * 2)
    seen = (torch.tensor(each).expand(1, count, -1) for each in (ids, special))
    return Maps([0], *seen, weights[None], listed)  # type: ignore[misc]


def test_a_head_on_the_rarest_token_is_told_from_one_on_a_common_token_and_from_chance() -> None:
    counts = TokenCounts(torch.tensor([0, 50, 9, 1, 30]))
    sums = RoleSums(3, counts)
    for order in ([1, 2, 3, 4], [3, 1, 4, 2], [1, 4, 2, 7], [4, 3, 2, 1], [2, 4, 3, 1]):  # 7 was never seen
        ids = [0, *order, 0]
        by_count = sorted(order, key=lambda token: int(counts.of(torch.tensor(token))))
        on = [torch.eye(6)[ids.index(token)].repeat(6, 1) for token in (by_count[0], by_count[-1])]
        sums.add(maps(torch.stack([*on, uniform(6)]), ids, [True, *[False] * 4, True]))
    rare, common, even = sums.told()
    assert (rare["rarest"], common["rarest"], even["rarest"]) == (1, 0, 0)
    assert rare["rarest_by_chance"] == pytest.approx(1 / 6)
    assert rare["roles"] == ["rare token"]
    assert common["roles"] == even["roles"] == []


def test_looks_that_most_tokens_cannot_have_make_no_head_positional() -> None:
    """In a text of six words one alone is five tokens from the end: a head on the last token is not at distance 5."""
    sums = RoleSums(1, TokenCounts(torch.tensor([1])))
    sums.add(maps(to_end(8)[None], [0] * 8, [True, *[False] * 7]))
    assert sums.told()[0]["offset_share"] < 0.5


ROWS, COLUMNS = 4, 6


def to_patch(n: int, down: int, right: int) -> torch.Tensor:
    """Patches behind a class token look at the one so far off, in the last row and column at the nearest there is."""
    row, column = torch.arange(n - 1) // COLUMNS + down, torch.arange(n - 1) % COLUMNS + right
    return torch.eye(n)[[0, *(1 + row.clamp(0, ROWS - 1) * COLUMNS + column.clamp(0, COLUMNS - 1)).tolist()]]


def planes(n: int) -> list[torch.Tensor]:
    some = torch.where(torch.arange(n)[:, None] % 5 > 0, to_patch(n, -1, 0), uniform(n))  # four in five
    return [torch.stack([to_patch(n, -1, 0), to_patch(n, 1, -2), some, at_offset(n, 1)])]


def test_heads_of_images_are_positional_by_steps_in_the_plane() -> None:
    """The patch above is one step off; in reading order it is a row's width away, beyond the reach. The last head looks
    at the next in reading order, which at the end of a row is no neighbour."""
    model = PatchReader(ROWS, COLUMNS, 1, planes)
    images = context(split([f"{at}.png" for at in range(20)]), teacher=model, task="image-classification")
    found = HeadsProbe().run(model, images)
    above, knight, some, order = found.details["heads"]
    assert (above["roles"], above["offset"], above["offset_share"]) == (["positional"], [-1, 0], 1)
    assert (knight["roles"], knight["offset"]) == (["positional"], [1, -2])
    assert (some["roles"], some["offset"]) == ([], [-1, 0])
    assert 0.7 < some["offset_share"] < 0.9
    assert (order["roles"], order["offset"]) == (["positional"], [0, 1])  # of the patches that have one to the right
    (batch,) = model.states(["a.png"], attentions=True)
    in_order = RoleSums(4, TokenCounts(torch.zeros(0, dtype=torch.int64)))
    for each in maps_of(batch, HeadList.of(model)):
        in_order.add(each)
    assert [head["roles"] for head in in_order.told()] == [[], [], [], ["positional"]]


def test_of_tokens_that_are_all_as_rare_none_is_the_rarest() -> None:
    """As the patches of images are, which have no counts."""
    sums = RoleSums(1, TokenCounts(torch.zeros(0, dtype=torch.int64)))
    for _ in range(40):
        sums.add(maps(torch.eye(6)[3].repeat(1, 6, 1), [0, 1, 2, 3, 4, 5], [True, *[False] * 5]))
    assert sums.told()[0]["roles"] == []
    assert int(sums.single["rows"]) == 0


@pytest.mark.parametrize(
    ("standing", "n", "step", "pairs"),
    [
        (Line(), 4, (-1,), [(1, 0), (2, 1), (3, 2)]),
        (Line(), 3, (0,), [(0, 0), (1, 1), (2, 2)]),
        (Line(), 3, (5,), []),
        (Plane(1, 2, 3), 7, (-1, 0), [(4, 1), (5, 2), (6, 3)]),
        (Plane(2, 2, 3), 8, (1, -1), [(3, 5), (4, 6)]),
    ],
)
def test_tokens_one_step_apart(
    standing: Line | Plane, n: int, step: tuple[int, ...], pairs: list[tuple[int, int]]
) -> None:
    assert list(zip(*(each.tolist() for each in standing.places(n).pairs(step)), strict=True)) == pairs


def test_distances_in_a_line_and_in_a_plane() -> None:
    assert Places(0, (3,)).distances().tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    assert Places(1, (2, 2)).distances()[0].tolist() == pytest.approx([0, 1, 1, math.sqrt(2)])


def test_a_decoder_above_an_encoder_sees_each_token_one_place_later() -> None:
    model = Reader(attend=lambda n: [at_offset(n, 0)[None]] * 2, layers=(0, 1), heads=((0,), (0,)))
    (batch,) = model.states(["a b c"], attentions=True)
    listed = HeadList([(0, 0), (1, 0)], [1, 1], *(torch.tensor([False, True]),) * 2)
    (read,) = maps_of(batch, listed)
    assert read.special[0].tolist() == [[True, False, False, False, True], [True, True, False, False, False]]
    marked = torch.zeros(1, 2, 5, 5)
    marked[0, :, 2, 1] = 1
    assert Maps([0], read.ids, read.special, marked, listed).by_token[0].nonzero().tolist() == [[0, 2, 1], [1, 1, 0]]


def test_the_divergence_of_equal_heads_is_0_of_disjoint_ones_ln_2_and_else_as_by_hand() -> None:
    looks = torch.tensor([[[0.5, 0.5, 0, 0]], [[0, 0, 0.25, 0.75]], [[0.5, 0.5, 0, 0]], [[1.0, 0, 0, 0]]])
    found = pair_divergences(looks)
    assert found[0, 2] == 0
    assert found[0, 1] == pytest.approx(math.log(2))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found[0, 3] == found[3, 0] == pytest.approx(entropy - math.log(2) / 2, abs=1e-6)


def test_heads_of_two_kinds_make_two_clusters_and_the_plane_shows_exact_distances() -> None:
    points = np.array([[0, 0], [0.1, 0], [3, 1], [3, 1.2], [0, 0.1]])
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    arranged = arrange(distances, 2)
    assert arranged.clusters.tolist() == [0, 0, 1, 1, 0]
    shown = np.linalg.norm(arranged.places[:, None] - arranged.places, axis=-1)
    assert shown == pytest.approx(distances, abs=0.01)
    assert arranged.stress < 0.01
    assert arrange(np.zeros((4, 4)), 2).clusters.tolist() == [0] * 4


@pytest.mark.parametrize("causal", [False, True])
def test_drawn_shapes_are_told_apart_at_lengths_that_were_not_learnt_from(causal: bool) -> None:
    classifier = train_classifier(causal, 13)
    drawn, classes = make_maps(100, 30, causal, np.random.default_rng(99))
    assert drawn.sum(-1) == pytest.approx(1, abs=1e-5)
    assert (np.triu(drawn, 1) == 0).all() == causal
    right = classifier.classes(torch.from_numpy(drawn)) == classes
    assert right.mean() > 0.9
    assert min(right[classes == at].mean() for at in range(len(CLASSES))) > 0.7
    assert classifier.accuracy > 0.9


HEADS = (2, 2, -1, 5, 5, 2, 2)  # the last is punctuation


def sentence(line: int = 1, words: Sequence[str] = WORDS[:7]) -> Sentence:
    relations = ("det", "nsubj", "root", "case", "det", "obj", "punct")
    return Sentence(line, tuple(words), ("X",) * 6 + ("PUNCT",), ("_",) * 7, HEADS, relations)


def to_heads(n: int) -> torch.Tensor:
    """Words look at their heads, the root at itself, separators at themselves."""
    target = [0, *(head + 1 if head >= 0 else at + 1 for at, head in enumerate(HEADS)), n - 1]
    return 0.7 * torch.eye(n)[target] + 0.3 * uniform(n)


def test_a_planted_tree_is_the_spanning_tree_and_another_head_s_is_not() -> None:
    one, kept = sentence(), sentence().spoken
    gold = gold_edges(one, kept)
    pieces = [[at + 1] for at in range(7)]
    words = word_attention(torch.stack([to_heads(9), at_offset(9, 1)]), pieces)[:, kept][:, :, kept]
    joined = spanning_trees(words + words.transpose(1, 2))
    assert len(gold) == 5
    assert found_edges(joined, gold).tolist() == [5, 2]  # neighbours: 1-2 and 4-5
    assert (joined[:, 0] == -1).all()
    assert found_edges(most_attended(words), gold).tolist() == [5, 2]


def test_the_spanning_tree_of_random_weights_is_scipy_s() -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree

    weights = torch.rand(20, 8, 8, generator=torch.Generator().manual_seed(1))
    weights = weights + weights.transpose(1, 2)
    for each, joined in zip(weights, spanning_trees(weights).tolist(), strict=True):
        expected = {tuple(sorted(edge)) for edge in np.argwhere(minimum_spanning_tree((9 - each).numpy()).toarray())}
        assert {tuple(sorted((word, to))) for word, to in enumerate(joined) if to >= 0} == expected


def test_a_word_gets_what_its_pieces_get_and_gives_the_mean_of_what_they_give() -> None:
    weights = torch.tensor([[[0.2, 0.3, 0.5], [0.4, 0.2, 0.4], [0.0, 0.1, 0.9]]])
    words = word_attention(weights, [[0, 1], [2]])
    assert words.flatten().tolist() == pytest.approx([0.55, 0.45, 0.1, 0.9])
    assert most_attended(words).tolist() == [[1, 0]]
    assert most_attended(torch.eye(3)[None]).tolist() == [[-1, -1, -1]]


@pytest.mark.parametrize(("hits", "pairs", "followed"), [(45, 60, True), (38, 60, False), (36, 49, False)])
def test_a_relation_is_followed_clearly_above_the_best_distance_in_enough_pairs(
    hits: int, pairs: int, followed: bool
) -> None:
    assert is_followed(hits, pairs, baseline=0.55) == followed


def test_syntactic_heads_and_the_best_tree_stand_beside_their_baselines(tmp_path: Path) -> None:
    columns = zip(HEADS, sentence().deprel, sentence().upos, strict=True)
    block = [f"{n}\t{WORDS[n - 1]}\t_\t{u}\t_\t_\t{h + 1}\t{r}\t_\t_" for n, (h, r, u) in enumerate(columns, 1)]
    path = tmp_path / "planted.conllu"
    path.write_text("\n".join([*block, ""] * 60))
    model = reader(
        lambda n: [torch.stack([to_heads(n) if n == 9 else uniform(n), at_offset(n, 1)])], numbers=((3, (1, 4)),)
    )
    details = run(model, treebank=str(path)).details
    follower, neighbour = details["heads"]
    assert follower["roles"] == ["syntactic"]
    assert {(each["relation"], each["looks"]) for each in follower["relations"]} == {("det", "to its head")}
    assert (follower["relations"][0]["share"], follower["relations"][0]["baseline"]) == (1, 0.5)
    assert neighbour["roles"] == ["positional"]
    trees = details["trees"]
    assert (trees["best"]["layer"], trees["best"]["head"], trees["best"]["uuas"]) == (3, 1, 1)
    assert 0.98 < trees["best"]["low"] <= 1
    assert (trees["sentences"], trees["edges"], trees["left_out"]) == (60, 300, 0)
    assert trees["next_word_uuas"] == pytest.approx(2 / 5)
    assert trees["random_uuas"] == pytest.approx(2 / 6)


def test_heads_of_an_unevenly_pruned_model_keep_their_numbers_and_figures(
    tiny_artifact: Callable[..., Artifact],
) -> None:
    artifact = tiny_artifact(layers=2)
    full, pruned = TorchPredictor(artifact, 32), TorchPredictor(artifact, 32)
    layout = apply_edits(pruned.module, [KeepHeads({0: [1, 3], 1: [2]})], FAMILIES["bert"])
    pruned.heads = tuple(layer.heads for layer in layout.layers)
    pruned.artifact = replace(artifact, key="pruned")
    about = context(split(TEXTS[:8]), teacher=full)
    before, after = HeadsProbe().run(full, about), HeadsProbe().run(pruned, about)
    old, new = heads(before), heads(after)
    assert list(new) == [(0, 1), (0, 3), (1, 2)]
    lost = {(each["layer"], each["head"]) for each in after.details["lost"]["heads"]}
    assert lost == {(0, 0), (0, 2), (1, 0), (1, 1), (1, 3)}
    for at in ((0, 1), (0, 3)):  # nothing below them changed
        assert new[at]["separators"] == pytest.approx(old[at]["separators"], abs=1e-5)
        assert new[at]["first_token"] == pytest.approx(old[at]["first_token"], abs=1e-5)
    assert old[0, 1]["separators"] != pytest.approx(old[0, 2]["separators"], abs=1e-3)  # the control


@pytest.mark.parametrize(("family", "causal"), [("gpt2", [True]), ("bart", [False, True])])
def test_decoders_are_read_too(family: str, causal: list[bool], tiny_artifact: Callable[..., Artifact]) -> None:
    model = TorchPredictor(tiny_artifact(family, layers=2), 32)
    details = HeadsProbe(samples=4).run(model, context(split(TEXTS[:8]), teacher=model)).details
    assert [each["causal"] for each in details["pattern_classifier"]] == causal
    assert {head["layer"] for head in details["heads"]} == {0, 1}
    assert details["n_rows"] == 4


def test_no_texts_is_skipped_with_a_reason() -> None:
    model = reader()
    found = HeadsProbe().run(model, context(split([]), train=split(TEXTS), teacher=model))
    assert found.skipped == "0 texts of two tokens or more, 5 heads"
