from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_jobs import write_job

from assay.core.artifact import Artifact
from assay.core.config.job import Job, tiny
from assay.core.config.load import load_job
from assay.core.errors import ConfigError
from assay.core.model.layout import Layout
from assay.run.fit import check_fit
from compress.step import Step

CONFIG = {
    "model_type": "bert", "num_hidden_layers": 6, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48,
}  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Artifact:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return Artifact(tmp_path, "key", "torch", "text-classification", "bert")


def job(folder: Path, *chain: Any, teacher: list[Any] | None = None) -> Job:
    return load_job(write_job(folder / "job.yaml", folder, teacher=teacher or [], variants={"half": list(chain)}))


def problems(made: Job, source: Artifact) -> list[str]:
    """What is wrong, without the place of the file."""
    with pytest.raises(ConfigError) as caught:
        check_fit(made, source)
    return [line.partition(": variants.half")[2] or line for line in caught.value.problems]


HALF = {"prune_layers": {"layers": [0, 2, 4]}}


@pytest.mark.parametrize(
    ("chain", "problem"),
    [
        ([{"prune_layers": {"layers": [0, 99]}}], "[0].prune_layers.layers: 99 is not among the layers present, 0-5"),
        ([{"prune_layers": {"keep": 7}}], "[0].prune_layers.keep: 7 is more than the 6 layers present"),
        ([{"prune_layers": {"layers": [1, 1]}}],
         "[0].prune_layers: keep_layers: the model: layers [1, 1] name one twice"),
        ([{"prune_heads": {"remove": {6: [0]}}}], "[0].prune_heads.remove: 6 is not among the layers present, 0-5"),
        ([{"prune_heads": {"remove": {0: [4]}}}], "[0].prune_heads.remove: 4 is not among the heads of layer 0, 0-3"),
        ([{"finetune": {"freeze": 6}}], "[0].finetune.freeze: 6 leaves none of the 6 layers to train"),
        ([{"distil": {"freeze": 8}}], "[0].distil.freeze: 8 leaves none of the 6 layers to train"),
        ([HALF, {"prune_layers": {"layers": [1]}}],
         "[1].prune_layers.layers: 1 is not among the layers present, 0,2,4"),
        ([HALF, {"prune_ffn": {"fraction": 0.5}}, {"finetune": {"freeze": 3}}],
         "[2].finetune.freeze: 3 leaves none of the 3 layers to train"),
        ([{"prune_heads": {"remove": {0: [1]}}}, {"prune_heads": {"remove": {0: [0, 2, 3]}}}],
         "[1].prune_heads.remove: layer 0 would lose its last head"),
        ([{"prune_heads": {"fraction": 0.5}}, HALF, {"prune_heads": {"remove": {1: [0]}}}],
         "[2].prune_heads.remove: 1 is not among the layers present, 0,2,4"),
        ([HALF, {"distil": {"hidden": 1.0, "layer_map": [[2, 1], [4, 6]]}}],
         "[1].distil.layer_map: layer 6 is not there; student [0, 2, 4], teacher [0, 1, 2, 3, 4, 5]"),
    ],
)  # fmt: skip
def test_a_setting_that_names_what_is_not_there_is_told_with_its_place(
    source: Artifact, tmp_path: Path, chain: list[Any], problem: str
) -> None:
    assert problems(job(tmp_path, *chain), source) == [problem]


@pytest.mark.parametrize(
    "chain",
    [
        [HALF, {"prune_layers": {"layers": [4]}}, {"prune_heads": {"remove": {4: [0, 1, 2]}}}, "export_onnx"],
        [HALF, {"distil": {"hidden": 1.0, "freeze": 2, "layer_map": [[4, 5]]}}],
        [{"prune_heads": {"fraction": 0.9}}, {"prune_heads": {"remove": {0: [0, 1, 2]}}}],
    ],
    ids=["stacked", "distil", "scores decide"],
)
def test_settings_that_fit_or_may_fit_are_let_through(source: Artifact, tmp_path: Path, chain: list[Any]) -> None:
    check_fit(job(tmp_path, *chain), source)


def test_all_are_told_at_once_with_their_lines(source: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        f"model: {tmp_path}\ndata: {{source: {tmp_path / 'config.json'}}}\n"
        "variants:\n  a:\n    - prune_layers:\n        layers: [9]\n  b:\n    - finetune: {freeze: 6}\n"
    )
    with pytest.raises(ConfigError) as caught:
        check_fit(load_job(path), source)
    assert caught.value.problems == [
        f"{path}:6: variants.a[0].prune_layers.layers: 9 is not among the layers present, 0-5",
        f"{path}:8: variants.b[0].finetune.freeze: 6 leaves none of the 6 layers to train",
    ]
    with pytest.raises(ConfigError, match=r"^--set: variants\.a\[0\]\.prune_layers\.layers: 7 is not") as caught:
        check_fit(load_job(path, ["variants.a[0].prune_layers.layers=[7]", "variants.b=[export_onnx]"]), source)
    assert len(caught.value.problems) == 1


def test_variants_start_from_what_the_teacher_is(source: Artifact, tmp_path: Path) -> None:
    chain = [{"prune_layers": {"layers": [1]}}]
    assert problems(job(tmp_path, *chain, teacher=[HALF]), source) == [
        "[0].prune_layers.layers: 1 is not among the layers present, 0,2,4"
    ]
    wrong = {"finetune": {"freeze": 6}}
    (problem,) = problems(job(tmp_path, *chain, teacher=[wrong]), source)
    assert ": teacher[0].finetune.freeze: 6 leaves none" in problem, "what follows it cannot be told"


def test_nothing_is_checked_after_a_step_whose_result_cannot_be_told(
    source: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(self: Step, layout: Layout, teacher: Layout | None) -> None:
        return None

    made = job(tmp_path, {"prune_ffn": {"fraction": 0.5}}, {"prune_layers": {"layers": [99]}})
    assert len(problems(made, source)) == 1
    monkeypatch.setattr("compress.steps.prune_ffn.PruneFfn.check", unknown)
    check_fit(made, source)


def test_settings_of_tiny_fit_its_two_layers(source: Artifact, tmp_path: Path) -> None:
    chain = [
        {"prune_heads": {"remove": {5: [3]}}}, {"prune_layers": {"layers": [0, 2, 4]}}, {"prune_layers": {"keep": 2}},
        {"distil": {"hidden": 1.0, "freeze": 1, "layer_map": [[0, 5]]}},
    ]  # fmt: skip
    made = job(tmp_path, *chain, teacher=[{"finetune": {"freeze": 4}}])
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 2}))
    check_fit(tiny(made), source)
    with pytest.raises(ConfigError):
        check_fit(made, source)


def test_a_file_that_a_probe_cannot_read_is_told_of_before_training_with_its_place(
    source: Artifact, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.conllu", tmp_path / "bad.conllu"
    good.write_text("1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n")
    bad.write_text("1\tgo\n")
    probes = [
        {"tokens": {"train": str(good), "test": str(good)}},
        {"edges": {"train": str(good), "test": str(bad)}},
        {"structure": {"train": str(tmp_path / "none"), "test": str(good)}},
    ]
    path = write_job(tmp_path / "job.yaml", tmp_path, teacher=[], variants={"half": [HALF]}, probes=probes)
    with pytest.raises(ConfigError) as caught:
        check_fit(load_job(path), source)
    edges, structure = caught.value.problems
    assert f"probes[1].edges: {bad}:1: 2 columns parted by tabs" in edges
    assert f"probes[2].structure.train: {tmp_path / 'none'}: no such file" in structure
