"""A whole job on images: made smaller, exported, examined; what does not fit them is refused before any training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL", reason="Pillow is not installed: pip install pillow")

from by_family import OF_IMAGES
from small_jobs import read, run
from tiny_images import write_image_job, write_images

from assay.core.data.prepare import prepare
from assay.core.data.settings import DataSettings, SplitSizes
from assay.core.errors import ConfigError, InputError
from assay.run.saved_data import read_split, save_data
from assay.run.sensitivity import analyse

CHAIN: list[Any] = [
    {"prune_heads": {"fraction": 0.5}},
    {"prune_layers": {"keep": 3}},
    {"prune_ffn": {"fraction": 0.25, "score": "activation"}},
    {"prune_heads": {"fraction": 0.2, "score": "confidence"}},
    {"factorise": {"energy": 0.6}},
    {"distil": {"epochs": 1, "batch_size": 8, "hidden": 0.1}},
    {"export_onnx": {"hidden_states": True}},
    {"quantize": {"tolerance": 5.0}},
]
PROBES: list[Any] = ["linear", "attention", "similarity", "fidelity"]
MORE: list[Any] = [
    "mdl",
    "attention_norms",
    "heads",
    "attention_flow",
    "corruptions",
    {"erasure": {"pooling": "first"}},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[pytest.mark.job] if name == "vit" else []) for name in OF_IMAGES]
)
def test_a_whole_job(family: str, tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    model = tiny_folder(family, task="image-classification", headless=True)
    config = write_image_job(
        tmp_path / "job.yaml", model, variants={"small": CHAIN}, probes=PROBES + MORE * (family != "vit")
    )
    assert run(config, tmp_path / "run").failures == []
    results = tmp_path / "run" / "results"
    accuracy = {
        name: {each["name"]: each["value"] for each in read(results / name / "evaluation.json")["metrics"]}["accuracy"]
        for name in ("teacher", "small")
    }
    assert accuracy["teacher"] == 1.0  # brightness is all there is to learn
    probe = read(results / "small" / "probes" / "linear.json")
    assert [task["task"] for task in probe["details"]["tasks"]] == ["label"]
    assert probe["examined"] == "graph"
    controls = [each["control"] for each in probe["details"]["tasks"][0]["layers"]]
    assert max(controls) < 1.0  # no two images are of one kind, so an arbitrary label cannot be told
    looked_at = read(results / "teacher" / "probes" / "attention.json")["details"]["layers"]
    assert [layer["layer"] for layer in looked_at] == [0, 1, 2, 3]
    figures = read(tmp_path / "run" / "measure.json")["variants"]
    assert figures["small"]["parameters"] < 0.8 * figures["teacher"]["parameters"]
    assert run(config, tmp_path / "run").failures == []
    told = read(analyse(tmp_path / "run", "teacher", "test", 8, 0, lambda done, of: None))
    assert told["whole"]["accuracy"] == 1.0
    assert len(told["removed"]) == 4 * 4 + 4  # heads, and layers


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"probes": [{"linear": {"tasks": ["tense"]}}]}, r"probes\[0\]\.linear.*: (parses texts|tense needs a parser)"),
        ({"probes": ["typos"]}, r"probes\[0\]\.typos: examines models of texts, and the rows of this job are images"),
        ({"variants": {"cut": ["cut_vocab"]}}, r"cut_vocab: a model of images has no vocabulary"),
        ({"variants": {"low": [{"factorise": {"embedding_rank": 4}}]}}, "images have no table of tokens"),
        ({"variants": {"narrow": [{"reduce_width": {"width": 8}}]}}, "reduce_width: works for .*, not for vit"),
        ({"variants": {"onnx": [{"export_onnx": {"exporter": "optimum"}}]}}, "optimum leaves height and width open"),
    ],
)
def test_what_does_not_fit_images_is_refused(
    sections: dict[str, Any], told: str, tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    config = write_image_job(tmp_path / "job.yaml", tiny_folder("vit", task="image-classification"), **sections)
    with pytest.raises(ConfigError, match=told):
        run(config, tmp_path / "run")


def test_the_task_must_fit_the_model(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    images = write_image_job(tmp_path / "job.yaml", tiny_folder("bert"))
    with pytest.raises(InputError, match="task: image-classification, but a bert model reads texts"):
        run(images, tmp_path / "run")
    (tmp_path / "vit").mkdir()
    write_images(tmp_path / "vit" / "images")
    texts = write_image_job(
        tmp_path / "vit" / "job.yaml", tiny_folder("vit", task="image-classification"), task="text-classification"
    )
    with pytest.raises(InputError, match="but a vit model reads images"):
        run(texts, tmp_path / "run")


def test_a_model_that_is_used_as_it_is_must_have_a_head(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    headless = tiny_folder("deit", task="image-classification", labels=("dark", "light"), headless=True)
    config = write_image_job(tmp_path / "job.yaml", headless, teacher=[])
    with pytest.raises(InputError, match=r"no classification head \(classifier\.weight\).*add finetune to the teacher"):
        run(config, tmp_path / "run")


def test_settings_are_held_against_the_model_before_any_training(
    tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    model = tiny_folder("vit", task="image-classification")
    settings = model / "preprocessor_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"size": 30}))
    with pytest.raises(InputError, match="makes images of 30 x 30 pixels"):
        run(write_image_job(tmp_path / "job.yaml", model), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rows_of_a_run_follow_images_that_moved(tmp_path: Path) -> None:
    link = tmp_path / "images"
    for place in ("here", "there"):
        write_images(tmp_path / place, rows=20)
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / place)
        split = SplitSizes(test=6, validation=4)
        save_data(tmp_path / "data", prepare(DataSettings(source=str(link), split=split), "image-classification", 0))
        assert all(f"/{place}/" in path for path in read_split(tmp_path / "data", "test").texts)
