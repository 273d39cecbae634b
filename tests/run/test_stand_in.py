from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from by_family import KINDS, OF_IMAGES, families

from assay.core.artifact import open_source, read_config
from assay.core.errors import InputError
from assay.core.manifest import hash_folder
from assay.core.model.anatomy import FAMILIES
from assay.core.model.image_settings import read_settings
from assay.core.model.load import load_module, load_source, load_tokenizer
from assay.run.stand_in import make_stand_in

Folder = Callable[..., Path]


@pytest.mark.parametrize("family", families(*KINDS))
def test_two_layers_of_the_same_family_with_the_same_tokenizer(
    tiny_folder: Folder, tmp_path: Path, family: str
) -> None:
    source = tiny_folder(family, layers=4, headless=True)
    made = open_source(make_stand_in(source, tmp_path / "stand_in", seed=1), "text-classification")
    original = open_source(source, "text-classification")
    assert made.family == family
    assert load_tokenizer(made).get_vocab() == load_tokenizer(original).get_vocab()
    module = load_source(made, ("neg", "pos"), seed=1)
    depths = [getattr(module.config, stack.depth_key) for stack in FAMILIES[family].stacks]
    assert depths == [2] * len(depths)


def test_a_source_with_a_head_has_a_stand_in_with_one(tiny_folder: Folder, tmp_path: Path) -> None:
    made = make_stand_in(tiny_folder(labels=("a", "b", "c")), tmp_path / "stand_in", seed=1)
    assert load_module(open_source(made, "text-classification")).config.num_labels == 3


def test_the_same_source_and_seed_give_the_same_bytes_and_a_whole_one_stays(
    tiny_folder: Folder, tmp_path: Path
) -> None:
    source, out = tiny_folder(), tmp_path / "stand_in"
    first = hash_folder(make_stand_in(source, out, seed=1))
    made_at = (out / "model.safetensors").stat().st_mtime_ns
    make_stand_in(source, out, seed=1)
    assert (out / "model.safetensors").stat().st_mtime_ns == made_at
    (out / "model.safetensors").write_bytes(b"cut")
    assert hash_folder(make_stand_in(source, out, seed=1)) == first
    assert hash_folder(make_stand_in(source, out, seed=2)) != first


def test_an_unknown_family_is_named_before_anything_is_built(tiny_folder: Folder, tmp_path: Path) -> None:
    source = tiny_folder()
    config = source / "config.json"
    config.write_text(config.read_text().replace('"model_type": "bert"', '"model_type": "perceptron"'))
    assert read_config(source)["model_type"] == "perceptron"
    with pytest.raises(InputError, match=rf"^{config}: model type 'perceptron' has no anatomy here"):
        make_stand_in(source, tmp_path / "stand_in", seed=1)
    assert not (tmp_path / "stand_in").exists()


@pytest.mark.parametrize("family", OF_IMAGES)
def test_a_stand_in_reads_images_as_its_source_does(tiny_folder: Folder, tmp_path: Path, family: str) -> None:
    source = tiny_folder(family, task="image-classification")
    made = open_source(make_stand_in(source, tmp_path / "stand_in", 1, "image-classification"), "image-classification")
    assert load_module(made).config.num_hidden_layers == 2
    assert read_settings(made.path).shape == read_settings(source).shape
