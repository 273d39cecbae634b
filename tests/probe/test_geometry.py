"""Anisotropy, isotropy and intrinsic dimension of vectors whose shape is known."""

from __future__ import annotations

import pytest
import torch

from probe.geometry.anisotropy import mean_cosine
from probe.geometry.cloud import Cloud
from probe.geometry.intrinsic_dimension import two_nn
from probe.geometry.isotropy import iso_score

DRAWN = torch.Generator().manual_seed(3)


def gaussian(n: int, width: int) -> torch.Tensor:
    return torch.randn(n, width, generator=DRAWN)


def anisotropy(rows: torch.Tensor, chunk: int = 50) -> float | None:
    cloud = Cloud(keep=20)
    for start in range(0, len(rows), chunk):
        cloud.add([rows[start : start + chunk]], torch.arange(min(chunk, len(rows) - start)))
    return cloud.figures()[0]["anisotropy"]


def test_anisotropy_of_one_direction_is_1_and_of_random_directions_about_0() -> None:
    one_way = gaussian(200, 1).abs() * gaussian(1, 30)
    assert anisotropy(one_way) == pytest.approx(1)
    assert anisotropy(gaussian(300, 30)) == pytest.approx(0, abs=0.01)
    assert anisotropy(gaussian(300, 30) + 3) > 0.8  # a common mean is what makes a cone


def test_anisotropy_is_the_mean_over_all_pairs_and_zero_vectors_have_no_part_in_it() -> None:
    rows = gaussian(40, 5) + 0.5
    cosines = torch.nn.functional.cosine_similarity(rows[:, None], rows[None], dim=-1)
    expected = float((cosines.sum() - 40) / (40 * 39))
    assert anisotropy(rows) == pytest.approx(expected, abs=1e-5)
    assert anisotropy(torch.cat([rows, torch.zeros(10, 5)])) == pytest.approx(expected, abs=1e-5)
    assert mean_cosine(rows[0], 1) is None


@pytest.mark.parametrize("used", [1, 8, 20])
def test_iso_score_is_about_the_share_of_directions_in_use(used: int) -> None:
    variances = torch.zeros(20, dtype=torch.float64)
    variances[:used] = 3.0
    turn = torch.linalg.qr(gaussian(20, 20).double()).Q
    assert iso_score(turn @ variances.diag() @ turn.T) == pytest.approx((used - 1) / 19, abs=1e-6)


def test_iso_score_does_not_see_the_mean_and_is_none_where_nothing_varies() -> None:
    cloud, moved = Cloud(keep=20), Cloud(keep=20)
    rows = gaussian(400, 10) * torch.linspace(0.1, 2, 10)
    cloud.add([rows], torch.arange(400))
    moved.add([rows[:200] + 100], torch.arange(200))
    moved.add([rows[200:] + 100], torch.arange(200))
    assert moved.figures()[0]["isotropy"] == pytest.approx(cloud.figures()[0]["isotropy"], abs=1e-3)
    assert moved.figures()[0]["anisotropy"] > cloud.figures()[0]["anisotropy"] + 0.9
    assert iso_score(torch.zeros(5, 5)) is None


@pytest.mark.parametrize(("dimension", "tolerance"), [(2, 0.25), (5, 0.7)])
def test_two_nn_recovers_the_dimension_of_a_plane_in_20_directions(dimension: int, tolerance: float) -> None:
    plane = torch.rand(800, dimension, generator=DRAWN) @ gaussian(dimension, 20)
    assert two_nn(plane) == pytest.approx(dimension, abs=tolerance)
    assert two_nn(plane + gaussian(800, 20)) > 2 * dimension  # noise in all 20 directions


def test_two_nn_counts_equal_rows_once() -> None:
    rows = gaussian(100, 3)
    assert two_nn(torch.cat([rows, rows[:50]])) == pytest.approx(two_nn(rows))
    assert two_nn(rows[:1].repeat(50, 1)) is None


def test_a_cloud_keeps_only_the_rows_it_is_told_it_may() -> None:
    cloud = Cloud(keep=30)
    line = torch.rand(40, 1, generator=DRAWN) * gaussian(1, 6)
    for start in range(0, 40, 20):
        cloud.add([torch.cat([line[start : start + 20], 100 * gaussian(60, 6)])], torch.arange(20))
    assert cloud.n == 160
    assert cloud.figures()[0]["intrinsic_dimension"] < 2
