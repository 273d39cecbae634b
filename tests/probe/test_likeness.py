"""CKA, SVCCA, RSA and Procrustes against values that are known, with vectors for which they must be something else."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from probe.similarity.cka import cka_matrix, linear_cka
from probe.similarity.jackknife import GROUPS, jackknife_spread
from probe.similarity.moments import Moments
from probe.similarity.procrustes import procrustes_distance
from probe.similarity.rsa import dissimilarities, rsa_matrix
from probe.similarity.svcca import svcca

N, WIDTH = 400, 12
DRAWN = torch.Generator().manual_seed(5)


def gaussian(n: int = N, width: int = WIDTH) -> torch.Tensor:
    return torch.randn(n, width, generator=DRAWN)


def rotation(width: int = WIDTH) -> torch.Tensor:
    return torch.linalg.qr(gaussian(width, width)).Q


def moments(x: torch.Tensor, y: torch.Tensor, chunk: int = 37) -> Moments:
    """Of one layer in each model, streamed in chunks whose first mean is the shift."""
    found = Moments([x[:chunk].mean(0)], [y[:chunk].mean(0)])
    for start in range(0, len(x), chunk):
        found.add([x[start : start + chunk]], [y[start : start + chunk]])
    return found


UNEVEN = gaussian() * torch.linspace(0.2, 3, WIDTH) + 5  # directions of unlike variance, a mean far from zero
OTHER = gaussian() + 0.7 * UNEVEN


def unbiased_hsic(x: torch.Tensor, y: torch.Tensor) -> float:
    """Song et al. 2007, equation 5, in sample space."""
    n = len(x)
    k, m = ((z.double() @ z.double().T).fill_diagonal_(0) for z in (x, y))
    ones = torch.ones(n, dtype=torch.float64)
    mixed = (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
    return float((k * m).sum() + mixed - 2 / (n - 2) * (ones @ k @ m @ ones)) / (n * (n - 3))


def test_streamed_moments_are_those_of_centred_vectors_whatever_the_shift() -> None:
    x, y = ((z - z.mean(0)).double() for z in (UNEVEN, OTHER))
    found = moments(UNEVEN, OTHER)
    assert found.n == N
    torch.testing.assert_close(found.centred(0, 1), x.T @ y, atol=1e-2, rtol=1e-4)
    assert found.scatter(0) == pytest.approx(float(x.square().sum()), rel=1e-5)
    assert found.coupled_norms(0, 1) == pytest.approx(float((x.square().sum(1) * y.square().sum(1)).sum()), rel=1e-5)


def test_cka_in_feature_space_is_that_of_the_kernels() -> None:
    found = moments(UNEVEN, OTHER)
    x, y = (z - z.mean(0) for z in (UNEVEN, OTHER))
    k, m = x @ x.T, y @ y.T
    assert linear_cka(found, 0, 1, debiased=False) == pytest.approx(
        float((k * m).sum() / (k.norm() * m.norm())), abs=1e-4
    )
    debiased = unbiased_hsic(x, y) / math.sqrt(unbiased_hsic(x, x) * unbiased_hsic(y, y))
    assert linear_cka(found, 0, 1) == pytest.approx(debiased, abs=1e-4)


@pytest.mark.parametrize("debiased", [True, False])
def test_cka_is_1_under_rotation_and_one_scale_and_less_under_a_scale_a_direction(debiased: bool) -> None:
    alike = moments(UNEVEN, 3 * UNEVEN @ rotation() + 7)
    assert linear_cka(alike, 0, 1, debiased) == pytest.approx(1, abs=1e-4)
    stretched = moments(UNEVEN, UNEVEN * torch.linspace(3, 0.2, WIDTH))
    assert linear_cka(stretched, 0, 1, debiased) < 0.7


def test_cka_of_independent_gaussians_is_about_0_debiased_and_d_over_n_plus_d_biased() -> None:
    drawn = [moments(gaussian(100, 50), gaussian(100, 50)) for _ in range(12)]
    debiased, biased = (np.mean([linear_cka(each, 0, 1, form) for each in drawn]) for form in (True, False))
    assert debiased == pytest.approx(0, abs=0.02)
    assert biased == pytest.approx(50 / 150, abs=0.02)


def test_cka_of_what_does_not_vary_is_no_number() -> None:
    assert math.isnan(linear_cka(moments(UNEVEN, torch.ones(N, 3)), 0, 1))
    assert math.isnan(linear_cka(moments(UNEVEN[:3], OTHER[:3]), 0, 1))


def test_every_pair_of_layers_has_its_place_in_the_matrix() -> None:
    x, y = [UNEVEN, gaussian(width=7)], [gaussian(width=3), OTHER, UNEVEN @ rotation()]
    found = Moments([z.mean(0) for z in x], [z.mean(0) for z in y])
    found.add(x, y)
    expected = [[linear_cka(moments(one, other), 0, 1) for other in y] for one in x]
    np.testing.assert_allclose(cka_matrix(found), expected, atol=1e-4)
    assert expected[0][2] == pytest.approx(1, abs=1e-4)
    assert abs(expected[1][0]) < 0.05


def test_svcca_is_1_under_an_invertible_map_of_what_is_kept_and_less_where_a_part_is_lost() -> None:
    bent = moments(UNEVEN, UNEVEN @ (gaussian(WIDTH, WIDTH) + 4 * torch.eye(WIDTH)))
    assert svcca(bent, 0, 1, 1.0) == pytest.approx(1, abs=1e-3)
    assert linear_cka(bent, 0, 1) < 0.95
    half = torch.cat([UNEVEN[:, : WIDTH // 2], gaussian(width=WIDTH // 2)], 1)
    assert 0.4 < svcca(moments(UNEVEN, half), 0, 1, 1.0) < 0.7


def test_svcca_looks_only_at_the_directions_that_hold_the_variance() -> None:
    signal, faint = 10 * gaussian(width=2), 0.01 * gaussian(width=4)
    pair = moments(torch.cat([signal, faint], 1), torch.cat([signal @ rotation(2), 0.01 * gaussian(width=4)], 1))
    assert svcca(pair, 0, 1, 0.99) == pytest.approx(1, abs=1e-3)
    assert svcca(pair, 0, 1, 1.0) < 0.6


def test_svcca_of_unrelated_vectors_is_near_the_root_of_directions_over_rows() -> None:
    found = svcca(moments(gaussian(2000, 20), gaussian(2000, 20)), 0, 1, 1.0)
    assert 0.5 * math.sqrt(20 / 2000) < found < 1.2 * math.sqrt(20 / 2000)
    assert math.isnan(svcca(moments(UNEVEN, torch.ones(N, 2)), 0, 1, 1.0))


def test_procrustes_is_0_under_rotation_and_scale_and_more_else() -> None:
    assert procrustes_distance(moments(UNEVEN, 0.1 * UNEVEN @ rotation() - 3), 0, 1) == pytest.approx(0, abs=1e-4)
    wider = torch.cat([UNEVEN, torch.zeros(N, 5)], 1) @ rotation(WIDTH + 5)
    assert procrustes_distance(moments(UNEVEN, wider), 0, 1) == pytest.approx(0, abs=1e-4)
    assert 0.05 < procrustes_distance(moments(UNEVEN, OTHER), 0, 1) < 1
    assert 1 < procrustes_distance(moments(gaussian(), gaussian()), 0, 1) <= 2


def test_procrustes_is_the_least_squares_left_by_the_best_rotation() -> None:
    x, y = (z - z.mean(0) for z in (UNEVEN, OTHER))
    x, y = x / x.norm(), y / y.norm()
    u, _, vt = torch.linalg.svd(x.T @ y)
    found = procrustes_distance(moments(UNEVEN, OTHER), 0, 1)
    assert found == pytest.approx(float((x @ u @ vt - y).square().sum()), abs=1e-4)
    assert found < float((x - y).square().sum())


def test_rsa_ranks_pairs_and_does_not_see_rotation_of_centred_vectors_nor_scale() -> None:
    x = UNEVEN - UNEVEN.mean(1, keepdim=True)
    keeping_means = torch.eye(WIDTH)[torch.randperm(WIDTH, generator=DRAWN)]
    ((same, unlike),) = rsa_matrix([x[:80]], [4 * x[:80] @ keeping_means, gaussian(80)])
    assert same == pytest.approx(1, abs=1e-6)
    assert abs(unlike) < 0.1


def test_dissimilarity_is_one_less_the_correlation_and_ties_share_their_rank() -> None:
    rows = torch.tensor([[1.0, 2, 3], [2, 4, 6], [3, 2, 1], [1, 1, 1]])
    np.testing.assert_allclose(dissimilarities(rows), [0, 2, 1, 2, 1, 1], atol=1e-12)
    ((tied,),) = rsa_matrix([rows], [rows[[1, 0, 2, 3]]])
    assert tied == pytest.approx(1)
    assert math.isnan(rsa_matrix([rows], [torch.ones(4, 2)])[0][0])


def groups_of(x: torch.Tensor, y: torch.Tensor) -> list[Moments]:
    found = [Moments([x.mean(0)], [y.mean(0)]) for _ in range(GROUPS)]
    for group, one, other in zip(found, x.chunk(GROUPS), y.chunk(GROUPS), strict=True):
        group.add([one], [other])
    return found


def test_moments_less_a_part_are_those_of_the_rest() -> None:
    shift = [UNEVEN.mean(0)], [OTHER.mean(0)]
    whole, part, rest = (Moments(*shift) for _ in range(3))
    whole.add([UNEVEN], [OTHER])
    part.add([UNEVEN[:100]], [OTHER[:100]])
    rest.add([UNEVEN[100:]], [OTHER[100:]])
    assert linear_cka(whole.without(part), 0, 1) == pytest.approx(linear_cka(rest, 0, 1), abs=1e-4)
    assert whole.n == N


def test_the_interval_covers_the_spread_of_repeated_samples() -> None:
    values, spreads = [], []
    for _ in range(20):
        x = gaussian(100, 6)
        y = x + gaussian(100, 6)
        whole = Moments([x.mean(0)], [y.mean(0)])
        whole.add([x], [y])
        values.append(linear_cka(whole, 0, 1))
        spread = jackknife_spread(groups_of(x, y), whole, lambda each: linear_cka(each, 0, 1))
        assert spread is not None
        spreads.append(spread)
    covered = np.mean(np.abs(np.array(values) - np.mean(values)) <= spreads)
    assert covered >= 0.85
    assert np.mean(spreads) < 4 * np.std(values)


def test_no_interval_without_every_group() -> None:
    found = groups_of(UNEVEN, OTHER)
    assert jackknife_spread(found[1:], moments(UNEVEN, OTHER), lambda each: 1.0) is None
