"""Images as models read them: the pixels of transformers' own processors, in batches, in graphs, in one clear line."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("PIL", reason="Pillow is not installed: pip install pillow")

from by_family import OF_IMAGES, families
from PIL import Image, ImageOps
from tiny_images import paths_of, write_images
from tiny_models import IMAGE_SETTINGS
from transformers import AutoImageProcessor

from assay.core.artifact import GRAPH, Artifact, open_source
from assay.core.errors import InputError
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import layout_of
from assay.core.model.export import export
from assay.core.model.graph import as_onnx
from assay.core.model.image_files import open_image
from assay.core.model.image_settings import SETTINGS, check_fits, read_settings
from assay.core.model.images import PIXELS, ImageEncoder, pixels
from assay.core.model.inputs import state_names
from assay.core.model.load import load_module, load_reader, save_module
from assay.core.model.predict import WhiteBox, open_predictor
from assay.run.opened import remembering

MakeArtifact = Callable[..., Artifact]
# height, width; the last is very long, two are smaller than what is cut out
SIZES = [(40, 50), (50, 40), (32, 32), (20, 90), (7, 5), (2, 300)]
WHOLE = {"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "do_resize": True}
WHOLE |= {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.25, 0.2]}


def settings_in(folder: Path, **given: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / SETTINGS).write_text(json.dumps(given))
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return paths_of(write_images(tmp_path_factory.mktemp("images"), rows=7))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("family", OF_IMAGES)
def test_pixels_are_those_of_transformers(family: str, size: tuple[int, int], tmp_path: Path) -> None:
    folder = settings_in(tmp_path / "model", **{**WHOLE, **IMAGE_SETTINGS[family]})
    (path, *_) = paths_of(write_images(tmp_path / "images", rows=1, size=size))
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    processor = AutoImageProcessor.from_pretrained(folder, use_fast=False)
    expected = processor(Image.open(path), return_tensors="np")["pixel_values"][0]
    found = pixels(open_image(path), read_settings(folder))
    assert found.shape == read_settings(folder).shape == (3, 32, 32)
    assert found == pytest.approx(expected, abs=1e-6)


def test_what_is_turned_off_does_nothing(tmp_path: Path) -> None:
    plain = {"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_normalize": False}
    folder = settings_in(tmp_path, **plain, do_rescale=False, do_center_crop=True, crop_size={"height": 4, "width": 2})
    image = Image.fromarray(np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3))
    found = pixels(image, read_settings(folder))
    assert (found == np.asarray(image)[2:6, 2:4].transpose(2, 0, 1)).all()


def test_gray_turned_and_transparent_images_are_read_in_colour_and_upright(tmp_path: Path) -> None:
    gray = Image.fromarray(np.linspace(0, 255, 12).astype(np.uint8).reshape(3, 4))
    gray.save(tmp_path / "gray.png")
    assert (np.asarray(open_image(tmp_path / "gray.png")) == np.asarray(gray)[:, :, None]).all()
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned a quarter
    Image.new("RGB", (4, 3)).save(tmp_path / "turned.jpg", exif=turned)
    assert open_image(tmp_path / "turned.jpg").size == (3, 4)
    Image.new("RGBA", (2, 2), (9, 8, 7, 0)).save(tmp_path / "clear.png")
    assert open_image(tmp_path / "clear.png").getpixel((0, 0)) == (9, 8, 7)


@pytest.mark.parametrize(("mode", "ending"), [("I;16", "png"), ("I;16", "tif"), ("I;16B", "tif"), ("I", "pgm")])
def test_grays_of_16_bits_keep_their_shades(mode: str, ending: str, tmp_path: Path) -> None:
    shades = np.linspace(0, 65535, 12).astype(np.uint16).reshape(3, 4)
    stored = {"I;16": "<u2", "I;16B": ">u2", "I": "<i4"}[mode]
    Image.frombytes(mode, (4, 3), shades.astype(stored).tobytes()).save(tmp_path / f"gray.{ending}")
    assert (np.asarray(open_image(tmp_path / f"gray.{ending}")) == (shades >> 8)[:, :, None]).all()


@pytest.mark.parametrize("mode", ["I", "F"])
def test_grays_of_no_known_range_are_refused(mode: str, tmp_path: Path) -> None:
    Image.new(mode, (4, 3), 1).save(tmp_path / "gray.tif")
    with pytest.raises(InputError, match=f"gray.tif: .*grays of mode {mode} have no known white"):
        open_image(tmp_path / "gray.tif")


def test_only_the_formats_of_images_are_opened_whatever_the_ending(tmp_path: Path) -> None:
    Image.new("RGB", (4, 3)).save(tmp_path / "other.eps")  # Pillow hands such a file to another program
    (tmp_path / "other.eps").rename(tmp_path / "other.png")
    with pytest.raises(InputError, match=r"other\.png: .*cannot identify"):
        open_image(tmp_path / "other.png")
    Image.new("RGB", (4, 3), "red").save(tmp_path / "png.jpg", format="PNG")
    assert open_image(tmp_path / "png.jpg").getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
def test_images_are_turned_as_pillow_turns_them(ending: str, tmp_path: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 24, 3)).astype(np.uint8))
    for orientation in range(1, 9):
        about = Image.Exif()
        about[0x0112] = orientation
        noise.save(tmp_path / f"turned.{ending}", exif=about)
        expected = ImageOps.exif_transpose(Image.open(tmp_path / f"turned.{ending}"))
        assert open_image(tmp_path / f"turned.{ending}").size == ((24, 16) if orientation < 5 else (16, 24))
        assert (np.asarray(open_image(tmp_path / f"turned.{ending}")) == np.asarray(expected)).all()


def test_other_notes_of_a_camera_may_be_damaged(tmp_path: Path) -> None:
    about = Image.Exif()
    about[0x0112], about[0x0213] = 6, 1
    path = tmp_path / "turned.jpg"
    Image.new("RGB", (4, 3)).save(path, exif=about)
    number, text = (b"\x02\x13" + kind.to_bytes(2, "big") for kind in (3, 2))
    path.write_bytes(path.read_bytes().replace(number, text))
    with pytest.raises(struct.error):
        ImageOps.exif_transpose(Image.open(path))
    assert open_image(path).size == (3, 4)


def test_settings_are_read_as_either_generation_writes_them(tmp_path: Path) -> None:
    def shape(**given: Any) -> tuple[int, ...]:
        return read_settings(settings_in(tmp_path, **{**WHOLE, **IMAGE_SETTINGS["vit"], **given})).shape

    for kind in ("ViTImageProcessorFast", "ViTImageProcessorPil", "ViTFeatureExtractor"):
        assert shape(image_processor_type=kind, do_center_crop=None, crop_size=None) == (3, 32, 32)
    assert shape(size=[16, 24]) == (3, 16, 24)
    assert shape(size=24) == (3, 24, 24)
    bit = settings_in(tmp_path, **{**WHOLE, **IMAGE_SETTINGS["dinov2"], "size": 36})
    assert read_settings(bit).size == 36  # to Bit, a bare number is the shorter edge
    square = Image.new("RGB", (72, 36))
    assert pixels(square, read_settings(bit)).shape == (3, 32, 32)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"image_processor_type": "CLIPImageProcessor"},
            "type 'CLIPImageProcessor' is not of the kinds",
        ),
        ({"image_processor_type": "ViTHybridImageProcessor"}, "type 'ViTHybridImageProcessor' is not of the kinds"),
        ({"resample": 9}, "resample 9; it is the number of one of Pillow's filters, 0 to 5"),
        ({"resample": None}, "no resample is stated"),
        ({"size": {"height": 0, "width": 32}}, "size .*'height': 0.*whole numbers of at least 1"),
        ({"image_std": [0.5, 0, 0.5]}, r"image_std \[0\.5, 0\.0, 0\.5\]; finite numbers"),
        ({"size": {"shortest_edge": 32}}, "images of any height and width stay"),
        ({"image_mean": [0.5]}, "image_mean and image_std need 3 values, one a channel; image_mean has 1"),
        ({"size": None}, "image settings that cannot be used"),
        ({"resample": "best"}, "image settings that cannot be used"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    folder = settings_in(tmp_path, **{**WHOLE, **IMAGE_SETTINGS["vit"], **change})
    with pytest.raises(InputError, match=told):
        read_settings(folder)


def test_missing_settings_and_images_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"preprocessor_config\.json: no such file"):
        read_settings(tmp_path)
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(InputError, match=r"text\.png: 12 bytes, cannot be read: no whole image"):
        open_image(tmp_path / "text.png")
    (whole,) = paths_of(write_images(tmp_path / "images", rows=1))
    Path(whole).write_bytes(Path(whole).read_bytes()[:2000])
    with pytest.raises(InputError, match="2000 bytes, cannot be read: no whole image"):
        open_image(whole)


@pytest.mark.parametrize("family", OF_IMAGES)
def test_batches_stream_and_change_nothing(family: str, images: list[str], tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact(family)
    model = open_predictor(source, 128)
    assert isinstance(model, WhiteBox)
    one, three = (model.logits(images, batch_size=size) for size in (1, 3))
    assert one == pytest.approx(three, abs=1e-5)
    assert np.ptp(one, axis=0).max() > 1e-3
    with torch.inference_mode():
        alone = load_module(source)(pixel_values=torch.from_numpy(model.encoder.pad(images[2:3])[PIXELS])).logits
    assert three[2] == pytest.approx(alone[0].numpy(), abs=1e-5)


@pytest.mark.parametrize(("family", "own"), [("vit", 1), ("deit", 2), ("dinov2", 1)])
def test_tokens_are_the_models_own_and_then_patches(
    family: str, own: int, images: list[str], tiny_artifact: MakeArtifact
) -> None:
    model = open_predictor(tiny_artifact(family), 128)
    assert isinstance(model, WhiteBox)
    (batch,) = model.states(images[:2], attentions=True)
    assert batch.hidden[0].shape == (2, own + 16, 32)
    assert len(batch.hidden) == 5
    assert model.max_length == own + 16
    assert batch.special.sum(1).tolist() == [own, own]
    assert batch.special[:, :own].all()
    assert batch.mask.all()
    assert batch.input_ids[1].tolist() == list(range(own + 16))
    assert all(each.sum(-1) == pytest.approx(1, abs=1e-5) for each in batch.attentions)


@pytest.mark.parametrize("family", families("vit", of=OF_IMAGES))
def test_a_graph_answers_as_torch_and_shows_its_states(
    family: str, images: list[str], tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family)
    module, names = load_module(source), state_names(range(4))
    told = export(module, load_reader(source), tmp_path, task="image-classification", states=names)
    assert told.exporter == "torch (TorchScript)"
    assert "positions are then computed anew" in str(told.reason)
    torch_model, graph = (open_predictor(each, 128) for each in (source, as_onnx(source, tmp_path)))
    assert isinstance(torch_model, WhiteBox)
    assert isinstance(graph, WhiteBox)
    for rows in (images, images[:1]):
        assert graph.logits(rows, 3) == pytest.approx(torch_model.logits(rows), abs=1e-5)
    (expected,) = torch_model.states(images)
    found = {row: batch for batch in graph.states(images) for row in batch.rows}
    for row in range(len(images)):
        for own, theirs in zip(found[row].hidden, expected.hidden, strict=True):
            assert own[0].numpy() == pytest.approx(theirs[row].numpy(), abs=1e-4)
        assert (found[row].special[0] == expected.special[row]).all()


def test_a_saved_model_keeps_its_settings_and_a_graph_needs_no_transformers(
    tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact("dinov2")
    save_module(load_module(source), tmp_path / "saved", load_reader(source))
    assert read_settings(tmp_path / "saved").shape == read_settings(source.path).shape
    assert isinstance(load_reader(open_source(tmp_path / "saved", "image-classification")), ImageEncoder)
    assert (tmp_path / "saved" / SETTINGS).read_bytes() == (source.path / SETTINGS).read_bytes()
    assert not (tmp_path / "saved" / GRAPH).exists()


@pytest.mark.parametrize(
    ("family", "config", "settings", "told"),
    [
        ("vit", {}, {"size": 30}, r"makes images of 30 x 30 pixels \(high, wide\); the model takes 32 x 32 alone"),
        ("deit", {}, {"crop_size": {"height": 32, "width": 24}}, "makes images of 32 x 24 pixels"),
        ("vit", {"patch_size": None}, {}, "patch_size None; the edge of square patches"),
        ("vit", {"patch_size": [8, 4]}, {}, r"patch_size \[8, 4\]; the edge of square patches"),
        ("vit", {"image_size": None}, {}, "image_size None; height and width are needed"),
        ("dinov2", {"image_size": [32, 16]}, {}, r"image_size \[32, 16\]; positions are fitted"),
        ("dinov2", {}, {"crop_size": 4}, "patches of 8 x 8 pixels do not fit images of 4 x 4"),
        ("dinov2", {"num_channels": 1}, {}, "num_channels 1; images are read in 3 channels"),
    ],
)
def test_settings_that_do_not_fit_the_model_are_refused(
    family: str, config: dict[str, Any], settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    folder = settings_in(tmp_path, **{**WHOLE, **IMAGE_SETTINGS[family], **settings})
    plain = {"patch_size": 8, "image_size": 32, "num_channels": 3}
    with pytest.raises(InputError, match=told):
        check_fits(read_settings(folder), plain | config, FAMILIES[family].any_size)


def test_settings_that_fit_the_model_are_taken(tmp_path: Path) -> None:
    def check(family: str, image_size: Any, **settings: Any) -> None:
        folder = settings_in(tmp_path, **{**WHOLE, **IMAGE_SETTINGS[family], **settings})
        check_fits(read_settings(folder), {"patch_size": 8, "image_size": image_size}, FAMILIES[family].any_size)

    check("vit", 32)
    check("vit", [32, 16], size=[32, 16])
    check("dinov2", 32, crop_size=30)  # what is over at the edge of the patches goes unread
    check("dinov2", 518)


def test_layers_of_another_kind_and_broken_ratios(tiny_artifact: MakeArtifact) -> None:
    config = tiny_artifact("dinov2").config
    with pytest.raises(InputError, match="use_swiglu_ffn: no anatomy here"):
        layout_of(config | {"use_swiglu_ffn": True})
    assert len(layout_of(config | {"mlp_ratio": 1.6}).layers[0].neurons) == 51
    with pytest.raises(InputError, match="mlp_ratio 0"):
        layout_of(config | {"mlp_ratio": 0.0})


def test_a_run_knows_an_image_by_its_content_and_not_by_its_path(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    model = remembering(open_predictor(tiny_artifact("vit"), 128))
    (path,) = paths_of(write_images(tmp_path / "images", rows=1))
    before = model.logits([path])
    assert (model.logits([path]) == before).all()
    Image.new("RGB", (50, 40), "white").save(path)
    assert np.abs(model.logits([path]) - before).max() > 1e-3
