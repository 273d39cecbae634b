"""Decoders against all trees, splits, brackets and baselines by hand, and planted trees that are found."""

import math
from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import pytest
import torch
from planted_trees import TREE, Heads, sentence

from probe.induction.arborescence import arborescence
from probe.induction.attachment import AttachmentSums, random_chances
from probe.induction.brackets import (
    baseline_f1,
    binary_tree,
    f1,
    gold_brackets,
    random_chance,
    split_at_largest,
    with_right_bias,
)
from probe.induction.eisner import eisner
from probe.induction.phrases import Curve, PhraseScores
from probe.induction.syntactic_distances import attention_distances, state_distances
from probe.treebank import Sentence


def all_trees(n: int, root: int) -> Iterator[Heads]:
    """Every tree over n words with that root, as heads."""
    for heads in product(range(n), repeat=n):
        given = tuple(-1 if at == root else head for at, head in enumerate(heads))
        if heads[root] == 0 and all(reaches(at, given) for at in range(n)):
            yield given


def above(at: int, heads: Heads) -> list[int]:
    """The word and its heads, as far as they are new."""
    way = [at]
    while heads[way[-1]] >= 0 and heads[way[-1]] not in way:
        way.append(heads[way[-1]])
    return way


def reaches(at: int, heads: Heads) -> bool:
    return heads[above(at, heads)[-1]] < 0


def projective(heads: Heads) -> bool:
    """Whether all words between a word and its head are below that head."""
    arcs = [(at, head) for at, head in enumerate(heads) if head >= 0]
    return all(head in above(word, heads) for at, head in arcs for word in range(min(at, head), max(at, head)))


def total(heads: Heads, scores: np.ndarray) -> float:
    return float(sum(scores[head, at] for at, head in enumerate(heads) if head >= 0))


@pytest.mark.parametrize(("n", "root"), [(3, 1), (4, 0), (4, 2), (5, 3)])
def test_decoders_find_the_best_of_all_trees_and_the_best_of_those_without_crossing_arcs(n: int, root: int) -> None:
    trees = list(all_trees(n, root))
    assert len(trees) == n ** (n - 2)  # Cayley
    differ = 0
    for seed in range(20):
        scores = np.random.default_rng(seed).normal(size=(n, n))
        best, flat = (
            max(kept, key=lambda heads: total(heads, scores)) for kept in (trees, [*filter(projective, trees)])
        )
        assert tuple(arborescence(scores, root)) == best
        assert tuple(eisner(scores, root)) == flat
        differ += best != flat
    assert differ > 0 or n == 3  # three words around their middle one cannot cross


def test_decoders_on_hand_made_scores() -> None:
    """Words 0 and 1 prefer each other. The circle is opened by 3, for 9 + 6 + 8; without an arc above the root, which
    is word 2, by the root itself, for 4 + 9 + 8."""
    scores = np.array([[0, 9, 1, 1], [9, 0, 1, 1], [4, 1, 0, 8], [1, 6, 1, 0]])
    assert arborescence(scores, 2).tolist() == [1, 3, -1, 2]
    assert eisner(scores, 2).tolist() == [2, 0, -1, 2]
    assert eisner(np.zeros((1, 1)), 0).tolist() == arborescence(np.zeros((1, 1)), 0).tolist() == [-1]


def planted_impact(one: Sentence, kept: list[int]) -> np.ndarray:
    """A word's head has most impact on it, and the higher a word, the more impact it has on all."""
    impact = np.array([[0.1 * (4 - one.depths[other]) for other in kept] for _ in kept])
    for at, word in enumerate(kept):
        impact[at, at] = 0
        head = one.heads[word]
        if head in kept:
            impact[at, kept.index(head)] = 2
    return impact


def test_a_planted_impact_gives_its_tree_and_its_transpose_does_not() -> None:
    sums, turned = AttachmentSums(), AttachmentSums()
    impact = planted_impact(TREE, TREE.spoken)
    sums.add(TREE, TREE.spoken, impact)
    turned.add(TREE, TREE.spoken, impact.T)
    told, control = sums.told(), turned.told()
    assert (told["edges"], told["sentences"], told["root_accuracy"]) == (5, 1, 1)
    assert [(each["tree"], each["uuas"], each.get("uas")) for each in told["trees"]] == [
        ("projective", 1, 1),
        ("any_shape", 1, 1),
        ("undirected", 1, None),
    ]
    assert told["depth_spearman"] < -0.9
    assert [each["uas"] for each in control["trees"][:2]] < [1, 1]
    assert control["trees"][2]["uuas"] == 1  # the symmetrised impact is the same


def test_chains_are_counted_by_hand() -> None:
    """Edges 0-1, 1-3, 2-1, 4-3, 5-4: of the head before are 2, 4 and 5, of the head after is 0."""
    sums = AttachmentSums()
    sums.add(TREE, TREE.spoken, np.zeros((6, 6)))
    chance = sums.told()["baselines"]
    assert chance["word_before_uas"] == pytest.approx(3 / 5)
    assert chance["word_after_uas"] == pytest.approx(1 / 5)
    assert chance["word_before_uuas"] == chance["word_after_uuas"] == pytest.approx(4 / 5)
    assert chance["random_uuas"] == pytest.approx(2 / 6)


def test_the_random_baseline_is_the_mean_over_all_trees() -> None:
    n, root = 4, 1
    gold = torch.tensor([[0, 1], [2, 3], [3, 1]])
    trees = list(all_trees(n, root))
    either, directed = random_chances(gold, root, n)
    for place, (dependent, head) in enumerate(gold.tolist()):
        below = sum(heads[dependent] == head for heads in trees)
        over = sum(heads[head] == dependent for heads in trees)
        assert directed[place] == pytest.approx(below / len(trees))
        assert either[place] == pytest.approx((below + over) / len(trees))


def test_a_sentence_whose_root_is_punctuation_hangs_on_its_highest_word() -> None:
    odd = sentence((2, 0, -1), frozenset({2}))
    sums = AttachmentSums()
    sums.add(odd, odd.spoken, np.array([[0.0, 0.1], [1.0, 0.0]]))
    assert sums.told()["trees"][0]["uas"] == 1
    assert sums.edges == 1


def test_distances_are_split_by_hand() -> None:
    """((a (b c)) (d e)): the widest gap is between c and d."""
    assert split_at_largest([2, 1, 3, 0.5]) == {(0, 3), (1, 3), (3, 5)}
    assert split_at_largest([3, 2, 1]) == binary_tree(4, lambda first, end: first + 1) == {(1, 4), (2, 4)}
    assert split_at_largest([1, 2, 3]) == binary_tree(4, lambda first, end: end - 1) == {(0, 3), (0, 2)}
    assert split_at_largest([1, 1, 1]) == {(1, 4), (2, 4)}  # of equal ones the first
    assert split_at_largest([5]) == frozenset()


def test_the_right_bias_falls_from_the_first_gap_to_the_last() -> None:
    biased = with_right_bias(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 3.0]]), 1.5)
    assert biased.tolist() == [[4.0, 3.5, 3.0], [1.5, 0.75, 3.0]]
    assert split_at_largest(biased[0].tolist()) == {(1, 4), (2, 4)}
    assert with_right_bias(np.array([2.0]), 1.0).tolist() == [4.0]
    assert with_right_bias(np.array([1.0, 2.0]), 0.0).tolist() == [1.0, 2.0]


def test_brackets_of_a_dependency_tree_are_its_unbroken_subtrees() -> None:
    assert gold_brackets(TREE, TREE.spoken) == {(0, 3), (4, 6)}
    crossing = sentence((2, 3, -1, 2))  # 1 hangs on 3: its words are 1 and 3
    assert gold_brackets(crossing, crossing.spoken) == frozenset()
    within = sentence((1, -1, 4, 4, 1), frozenset({3}))  # punctuation between two words is not in the way
    assert gold_brackets(within, within.spoken) == {(2, 4)}


def test_f1_and_its_baselines_by_hand() -> None:
    gold = gold_brackets(TREE, TREE.spoken)  # (0, 3), (4, 6) of 6 words
    known = baseline_f1(gold, 6)
    assert f1(split_at_largest([1, 0, 3, 2, 0]), gold) == known["most"] == pytest.approx(2 * 2 / (4 + 2))
    assert known["left_branching"] == pytest.approx(2 * 1 / 6)  # (0, 3)
    assert known["right_branching"] == pytest.approx(2 * 1 / 6)  # (4, 6)
    assert known["balanced"] == pytest.approx(2 * 1 / 6)  # (0, 3) (3, 6) (0, 2) (3, 5)


@pytest.mark.parametrize("bracket", [(0, 2), (1, 3), (1, 4), (3, 5)])
def test_the_random_split_is_the_mean_over_all_orders(bracket: tuple[int, int]) -> None:
    trees = [split_at_largest(order) for order in permutations(range(4))]
    assert random_chance(bracket, 5) == pytest.approx(sum(bracket in tree for tree in trees) / len(trees))


def test_distances_of_neighbours_by_hand() -> None:
    cosine, euclidean = state_distances(torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 4.0], [0.0, -1.0]]))
    assert cosine == pytest.approx([1, 0, 2])
    assert euclidean == pytest.approx([math.sqrt(5), 2, 5])
    weights = torch.tensor([[[1.0, 0, 0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]], [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]])
    one, two = attention_distances(weights, [[0], [1], [2]])
    assert one == pytest.approx(np.sqrt(np.log(2)) * np.array([[1, 0], [0, 1]]), abs=1e-7)
    assert two == pytest.approx(np.array([[1, 0], [0, 1]]), abs=1e-7)
    joined, _ = attention_distances(weights[:1], [[0, 1], [2]])  # (.5 .25 .25) against (0 .5 .5)
    middle = -0.25 * math.log(0.25) - 0.75 * math.log(0.375)
    entropies = (0.5 * math.log(2) + 0.5 * math.log(4)) + math.log(2)
    assert joined[0] == pytest.approx([math.sqrt(middle - entropies / 2)])


def test_the_best_curve_is_the_one_that_splits_as_the_tree_does() -> None:
    scores = PhraseScores([TREE], 0.0)
    scores.add(Curve("cosine", 0), 0, np.array([0.0, 1, 2, 3, 4]))
    scores.add(Curve("hellinger", 5, 7), 0, np.array([1.0, 0, 3, 2, 0]))
    told = scores.told()
    assert {name: told["best"][name] for name in ("measure", "layer", "head")} == {
        "measure": "hellinger",
        "layer": 5,
        "head": 7,
    }
    assert told["best"]["f1"] == told["baselines"]["most"]
    assert told["curves"][0]["f1"] == told["baselines"]["left_branching"]
    assert told["held_out_f1"] is None


def test_the_held_out_score_is_that_of_the_curve_chosen_on_the_other_half() -> None:
    """One curve is right on the first half, the other on the second."""
    scores = PhraseScores([TREE, TREE], 0.0)
    right, wrong = np.array([1.0, 0, 3, 2, 0]), np.array([0.0, 1, 0, 0, 9])
    for curve, order in ((Curve("cosine", 0), (right, wrong)), (Curve("cosine", 1), (wrong, right))):
        for at, distances in enumerate(order):
            scores.add(curve, at, distances)
    assert scores.told()["best"]["f1"] == pytest.approx(2 / 3 / 2)
    assert scores.held_out == 0
