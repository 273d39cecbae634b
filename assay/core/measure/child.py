"""One cold start in a process of its own: `python -m assay.core.measure.child FOLDER FORMAT`.

Imports what the format needs and no more. An ONNX folder is run the way an edge device runs it: onnxruntime, numpy and
tokenizers, or Pillow for images, without torch or transformers. Prints one line of JSON: when the first text or image
was answered and with which logits, the most memory the process ever had after it also answered one batch, and which of
the heavy libraries it imported.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from assay.core.artifact import GRAPH, Artifact, Format, Task, is_image, read_config
from assay.core.manifest import Manifest
from assay.core.measure.timed_batch import timed_batch
from assay.core.model.image_settings import read_settings
from assay.core.model.images import PIXELS, pixels
from assay.core.model.predict import run_graph

TEXT = "A first text to answer."
EDGE = 256  # height and width of the first image to answer, a gray one
HEAVY = ("torch", "transformers", "onnxruntime")

Inputs = dict[str, np.ndarray]
Answer = Callable[[Inputs], np.ndarray]


def main() -> None:
    """Parse the command line, load, answer, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("format", choices=["torch", "onnx"])
    parser.add_argument("--task", default="text-classification")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    artifact = _artifact(given.folder, given.format, given.task)
    answer = open_onnx(artifact, given.threads) if given.format == "onnx" else open_torch(artifact, given.threads)
    first = answer(first_row(artifact))[0]
    first = (first[-1] if first.ndim > 1 else first).tolist()  # of a language model, what follows the text
    answered_at = time.time()
    answer(timed_batch([artifact], given.batch_size, given.length))
    imported = [name for name in HEAVY if name in sys.modules]
    said = {"answered_at": answered_at, "answer": first, "peak_rss_mib": peak_rss_mib(), "imported": imported}
    print(json.dumps(said))


def _artifact(folder: Path, form: Format, task: Task) -> Artifact:
    manifest = Manifest.read(folder)
    return Artifact(folder, "", form, task, read_config(folder)["model_type"], manifest.edits if manifest else [])


def first_row(artifact: Artifact) -> Inputs:
    """The inputs of a first text or image, made with what the format has."""
    if is_image(artifact.task):
        from PIL import Image

        return {PIXELS: pixels(Image.new("RGB", (EDGE, EDGE), "gray"), read_settings(artifact.path))[None]}
    if artifact.format == "onnx":
        return _tokenized(artifact.path)
    from assay.core.model.load import load_tokenizer

    return dict(load_tokenizer(artifact)(TEXT, return_tensors="np"))


def _tokenized(folder: Path) -> Inputs:
    """With the tokenizers library alone."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    row = tokenizer.encode(TEXT)
    columns = {"input_ids": row.ids, "attention_mask": row.attention_mask, "token_type_ids": row.type_ids}
    return {name: np.array([column], np.int64) for name, column in columns.items()}


def open_onnx(artifact: Artifact, threads: int) -> Answer:
    """With onnxruntime alone."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    graph = str(artifact.path / GRAPH)
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    return lambda inputs: run_graph(session, inputs)


def open_torch(artifact: Artifact, threads: int) -> Answer:
    """With transformers and the edits in the folder's manifest."""
    import torch

    from assay.core.model.load import load_module

    torch.set_num_threads(threads)
    module = load_module(artifact, attn_implementation="sdpa")

    def answer(inputs: Inputs) -> np.ndarray:
        with torch.inference_mode():
            return module(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits.numpy()

    return answer


def peak_rss_mib() -> float:
    """The most memory this process has had in use.

    On Linux not `ru_maxrss`, which a process inherits from the (larger) one that started it."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    peak = next((line for line in lines if line.startswith("VmHWM:")), None)
    if peak is not None:
        return int(peak.split()[1]) / 2**10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


if __name__ == "__main__":
    main()
