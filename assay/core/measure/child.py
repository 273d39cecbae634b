"""One cold start in a process of its own: `python -m assay.core.measure.child FOLDER FORMAT`.

Imports what the format needs and no more. An ONNX folder is run the way an edge device runs it: onnxruntime, tokenizers
and numpy, without torch or transformers. Prints one line of JSON: when the first text was answered and with which
logits, the most memory the process ever had after it also answered one batch, and which of the heavy libraries it
imported.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from assay.core.artifact import GRAPH, Artifact, Task, read_config
from assay.core.manifest import Manifest
from assay.core.measure.token_batch import token_batch
from assay.core.model.predict import run_graph

TEXT = "A first text to answer."
HEAVY = ("torch", "transformers", "onnxruntime")

Inputs = dict[str, np.ndarray]
Model = tuple[Callable[[str], Inputs], Callable[[Inputs], np.ndarray]]  # tokenize one text, answer a batch


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
    if given.format == "onnx":
        tokenize, answer = open_onnx(given.folder, given.threads)
    else:
        tokenize, answer = open_torch(given.folder, given.threads, given.task)
    first = answer(tokenize(TEXT))[0]
    first = (first[-1] if first.ndim > 1 else first).tolist()  # of a language model, what follows the text
    answered_at = time.time()
    answer(token_batch([read_config(given.folder)], given.batch_size, given.length))
    imported = [name for name in HEAVY if name in sys.modules]
    said = {"answered_at": answered_at, "answer": first, "peak_rss_mib": peak_rss_mib(), "imported": imported}
    print(json.dumps(said))


def open_onnx(folder: Path, threads: int) -> Model:
    """With onnxruntime and tokenizers alone."""
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / GRAPH), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()

    def tokenize(text: str) -> Inputs:
        row = tokenizer.encode(text)
        columns = {"input_ids": row.ids, "attention_mask": row.attention_mask, "token_type_ids": row.type_ids}
        return {name: np.array([column], np.int64) for name, column in columns.items()}

    return tokenize, lambda inputs: run_graph(session, inputs)


def open_torch(folder: Path, threads: int, task: Task) -> Model:
    """With transformers and the edits in the folder's manifest."""
    import torch

    from assay.core.model.load import load_module, load_tokenizer

    torch.set_num_threads(threads)
    manifest = Manifest.read(folder)
    edits = manifest.edits if manifest else []
    artifact = Artifact(folder, "", "torch", task, read_config(folder)["model_type"], edits)
    module, tokenizer = load_module(artifact, attn_implementation="sdpa"), load_tokenizer(artifact)

    def answer(inputs: Inputs) -> np.ndarray:
        with torch.inference_mode():
            return module(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits.numpy()

    return lambda text: dict(tokenizer(text, return_tensors="np")), answer


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
