from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up_run import Model, models

from reports.claims import best_trade, claims
from reports.collect import Run, collect


def claim_of(run: Run, name: str) -> str:
    return next(claim for claim in claims(run) if claim.startswith((f"{name} ", f"Best trade: {name},")))


def with_int8(**changes: Any) -> list[Model]:
    chosen = models()
    for name, value in changes.items():
        setattr(chosen[2], name, value)
    return chosen


def test_best_trade_is_the_fastest_that_keeps_enough(run: Run) -> None:
    best = best_trade(run)
    assert best is not None
    assert best.name == "int8"  # half_depth is faster and keeps 92 %
    assert claims(run)[0].startswith("Best trade: int8, the fastest of those that keep at least 97 %")


def test_every_gain_has_both_figures_of_both_baselines(run: Run) -> None:
    claim = claim_of(run, "half_depth")
    assert "keeps 92.2 % of the teacher's accuracy: 0.783 (95 % interval 0.723 to 0.833) against 0.850" in claim
    assert "McNemar p = 0.250" in claim
    assert "17.4 MB, 5.2× smaller than the teacher in PyTorch (90.9 MB) and 5.2× smaller than in ONNX" in claim
    assert "takes 3.80 ms, 7.1× faster than the teacher in PyTorch (27.0 ms) and 3.9× faster than in ONNX" in claim


@pytest.mark.parametrize(
    ("integer_ops", "vnni", "reason"),
    [
        (0, True, "runs no integer operation"),
        (36, False, "no VNNI"),
        (36, True, "rounding the activations"),
    ],
)
def test_int8_that_is_not_faster_than_both_says_so_and_why(
    run_of: Callable[..., Run], integer_ops: int, vnni: bool, reason: str
) -> None:
    chosen = with_int8(p50=15.2, measured={"integer_ops": integer_ops})
    claim = claim_of(run_of(chosen, machine={"flags": {"avx2": True, "avx512_vnni": vnni}}), "int8")
    assert "about as fast as in ONNX Runtime (15.0 ms)" in claim
    assert "do not make it faster than both fp32 baselines" in claim
    assert reason in claim


def test_int8_that_is_faster_than_both_gives_no_excuse(run: Run) -> None:
    assert "do not make it faster" not in claim_of(run, "int8")


def test_a_slower_variant_is_called_slower(run_of: Callable[..., Run]) -> None:
    claim = claim_of(run_of(with_int8(p50=30.0)), "int8")
    assert "1.1× slower than the teacher in PyTorch (27.0 ms) and 2.0× slower than in ONNX Runtime (15.0 ms)" in claim


def test_a_file_that_grew_is_told(run_of: Callable[..., Run]) -> None:
    claim = claim_of(run_of(with_int8(size=120e6)), "int8")
    assert "The file grew: it is 120 MB, 1.3× larger than the teacher in PyTorch (90.9 MB)" in claim


def test_no_gain_is_claimed_from_zeros(run_of: Callable[..., Run]) -> None:
    chosen = models()
    chosen[4].measured = {"nonzero_parameters": 11_350_000}
    chosen[4].size, chosen[4].p50 = 91e6, 15.0
    read = run_of(chosen)
    claim = claim_of(read, "fewer_heads")
    assert "50.0 % of its 22,700,000 parameters are zero; zeros are stored and multiplied" in claim
    assert "smaller" not in claim
    assert "are zero" not in claim_of(read, "half_depth")


def test_speed_is_not_claimed_without_the_other_figure(folder: Path) -> None:
    path = folder / "measure.json"
    path.write_text(path.read_text().replace('"latency_ms_p50": 15.0', '"latency_ms_p50": null'))
    claim = claim_of(collect(folder), "half_depth")
    assert "faster than in ONNX Runtime" not in claim
    assert "no figure of the teacher in ONNX Runtime to compare" in claim


@pytest.mark.parametrize("name", ["int8", "half_depth"])
def test_a_missing_figure_of_a_baseline_is_not_called_a_loss(folder: Path, name: str) -> None:
    path = folder / "measure.json"
    path.write_text(path.read_text().replace('"latency_ms_p50": 15.0', '"latency_ms_p50": null'))
    claim = claim_of(collect(folder), name)
    assert "Whether it is faster than both fp32 baselines is not measured." in claim
    assert "do not make it faster" not in claim


def test_slower_than_one_baseline_is_known_without_the_other(run_of: Callable[..., Run]) -> None:
    chosen = with_int8(p50=30.0)
    chosen[1].measured = {"latency_ms_p50": None}
    assert "do not make it faster than both" in claim_of(run_of(chosen), "int8")


def test_nothing_measured_claims_no_size_or_speed(folder: Path) -> None:
    (folder / "measure.json").unlink()
    told = claims(collect(folder))
    assert "Size and speed are not measured yet." in told
    assert not any(word in claim for claim in told for word in ("faster", "smaller", "Best trade"))
    assert any(claim.startswith("int8 keeps 99.0 %") for claim in told)


def test_no_variant_worth_it_is_said_plainly(run_of: Callable[..., Run]) -> None:
    chosen = [model for model in models() if model.name in ("teacher", "teacher_onnx", "half_depth")]
    read = run_of(chosen)
    assert best_trade(read) is None
    assert claims(read)[0].startswith("No variant is a clear trade: none keeps at least 97 %")
    assert "half_depth keeps most, 92.2 %" in claims(read)[0]


def test_failures_unfinished_and_tiny_runs_are_told(run_of: Callable[..., Run]) -> None:
    told = claims(run_of(finished=None, tiny=True))
    assert told[0].startswith("A tiny run")
    assert "The run is not finished: what follows is what there is so far." in told
    assert told[-1] == "broken failed: prune_layers.keep: 9 is more than the 3 layers of the model"


def test_a_plain_export_is_the_baseline_and_no_trade(folder: Path) -> None:
    data = json.loads((folder / "run.json").read_text())
    data["baselines"] = ["teacher", "teacher_onnx"]
    data["variants"] = [variant | {"role": "variant"} for variant in data["variants"][:2]]
    (folder / "run.json").write_text(json.dumps(data))
    read = collect(folder)
    assert best_trade(read) is None  # 1.8 times faster than in PyTorch, and no faster than itself
    assert "The file grew" not in claim_of(read, "teacher_onnx")  # 0.3 % of graph around the same weights
