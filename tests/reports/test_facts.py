from __future__ import annotations

from typing import Any

from reports.collect import Run, StepRecord
from reports.facts import curve, curve_chart, facts, head_maps, plain, settings


def step(name: str, **recorded: Any) -> StepRecord:
    return StepRecord(name, facts=recorded)


def test_known_facts_are_words() -> None:
    assert facts(step("prune_heads", removed={"0": [1, 3], "1": [], "2": [0]}, kept={}, scores={})) == {
        "Heads removed": "3 (layer 0: 1, 3; layer 2: 0)"
    }
    assert facts(step("prune_layers", kept=[0, 2], removed=[1])) == {"Layers kept": "0, 2", "Layers removed": "1"}
    assert facts(step("prune_ffn", kept_neurons={"0": 512, "1": 1024}, of=1536)) == {
        "FFN neurons kept": "layer 0: 512; layer 1: 1,024",
        "FFN neurons a layer before": "1,536",
    }


def test_a_cut_vocabulary_tells_what_it_covers() -> None:
    counted = {"tokens_before": 30522, "tokens_after": 12173, "bytes_saved": 28184064}
    shares = {"coverage_train": 1.0, "coverage": 0.9744, "unknown_before": 0.0, "unknown_after": 0.0012}
    assert facts(step("cut_vocab", **counted, **shares)) == {
        "Tokens before": "30,522",
        "Tokens after": "12,173",
        "Weights smaller by": "28.2 MB",
        "Tokens of training texts kept": "100.0 %",
        "Tokens of validation texts kept": "97.4 %",
        "Unknown tokens before": "0.0 %",
        "Unknown tokens after": "0.1 %",
    }
    assert "Tokens of validation texts kept" not in facts(step("cut_vocab", **counted, coverage=None))


def test_parity_tells_difference_flips_and_shapes() -> None:
    parity = {"max_abs": 1.3e-6, "mean_abs": 2e-7, "flips": 0, "rows": 24, "shapes": [[1, None]], "tolerance": 1e-4}
    told = facts(step("export_onnx", parity=parity, ops={"Add": 60, "MatMul": 36}))
    assert told["Largest difference of a logit"] == "1.3e-06, 2e-07 on average, tolerance 0.0001"
    assert told["Answers changed"] == "0 of 24 rows"
    assert told["Compared in shapes"].replace("\xa0", " ") == "1 × own length"
    assert (
        facts(step("export_onnx", parity=parity | {"shapes": [[1], [5]]}))["Compared in shapes"]
        == "batch of 1, batch of 5"
    )
    assert told["Operations of the graph"].replace("\xa0", " ") == "Add 60, MatMul 36"


def test_facts_of_an_unknown_step_are_shown_as_recorded() -> None:
    assert facts(step("cut_vocabulary", tokens_kept=9000, by={"train": 0.5})) == {
        "Tokens kept": "9,000",
        "By": "train: 0.5",
    }


def test_settings_read_as_in_the_config() -> None:
    given = StepRecord("x", settings={"lr": 8e-5, "fraction": 0.4, "layers": [0, 2], "per_channel": True, "head": None})
    assert settings(given) == {
        "lr": "8e-05", "fraction": "0.4", "layers": "[0, 2]", "per_channel": "yes", "head": "none",
    }  # fmt: skip


def test_long_values_are_cut() -> None:
    assert plain("x" * 1000) == "x" * 400 + " …"


def test_curve_is_thinned_and_keeps_both_ends() -> None:
    trained = step("finetune", curve=[{"step": n, "loss": 1 / (n + 1)} for n in range(1000)])
    points = curve(trained)
    assert (points[0][0], points[-1][0]) == (0, 999)
    assert len(points) <= 121
    assert "<svg" in (curve_chart(trained) or "")
    assert curve_chart(step("finetune", curve=[])) is None


def test_a_map_of_heads_is_shared_by_the_variants_with_that_step(run: Run) -> None:
    (only,) = head_maps(run)
    assert only.names == ("fewer_heads",)
    assert (only.removed, only.of) == (3, 12)
    assert (0, 1, "0.300", True) in only.table
