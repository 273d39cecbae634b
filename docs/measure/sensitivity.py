"""What `assay analyse sensitivity` costs against a hooked pass a head: the same batches in turns, the same answers.

    python docs/measure/sensitivity.py runs/quickstart

Prints seconds of both for all heads of the teacher, and how far accuracies and losses are apart.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

from assay.core.model.ablate import Cut, logits_without
from assay.core.model.anatomy import family_of
from assay.core.model.edits import layout_of
from assay.core.model.load import load_module, load_tokenizer
from assay.core.model.masks import mask_heads
from assay.core.model.predict import Encoder
from assay.run.saved_data import read_split
from assay.run.sensitivity import BATCH, find_weights

Answer = Callable[[dict[str, torch.Tensor]], torch.Tensor]


def main() -> None:
    """Both ways take turns, batch by batch, so that a busy neighbour slows both alike."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run folder whose teacher is finished")
    parser.add_argument("--variant", default="teacher")
    parser.add_argument("--rows", type=int, default=500, help="validation rows")
    asked = parser.parse_args()
    record = json.loads((asked.run / "run.json").read_text())
    _, artifact = find_weights(asked.run, record, asked.variant)
    split = read_split(asked.run / "data", "validation")
    split = split.take(range(min(asked.rows, len(split))))
    heads = [len(layer.heads) for layer in layout_of(artifact.config, artifact.edits).layers]
    cuts = [Cut(layer, "heads", (head,)) for layer, count in enumerate(heads) for head in range(count)]
    module, family = load_module(artifact, "sdpa"), family_of(artifact.family)

    def at_once(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return logits_without(module, family, inputs, cuts)[1]

    @torch.inference_mode()
    def one_by_one(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        found = []
        for cut in cuts:
            masks = [torch.ones(count) for count in heads]
            masks[cut.layer][list(cut.units)] = 0
            with mask_heads(module, family, masks):
                found.append(module(**inputs).logits)
        return torch.stack(found)

    ways: dict[str, Answer] = {"at once": at_once, "one by one": one_by_one}
    logits = {name: torch.zeros(len(cuts), len(split), module.config.num_labels) for name in ways}
    wall, cpu = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    encoder = Encoder(load_tokenizer(artifact), record["job"]["data"]["max_length"])
    for rows, inputs in encoder.batches(split.texts, BATCH):
        tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
        for name, answer in ways.items():
            started, used = time.perf_counter(), time.process_time()
            logits[name][:, rows] = answer(tensors)
            wall[name] += time.perf_counter() - started
            cpu[name] += time.process_time() - used
        so_far = ", ".join(f"{name} {wall[name]:.1f} s ({cpu[name]:.1f} s of CPU)" for name in ways)
        print(f"  {len(rows)} rows of {inputs['input_ids'].shape[1]} tokens; so far {so_far}", flush=True)
    print(f"{len(cuts)} heads, {len(split)} rows, {torch.get_num_threads()} threads")
    for name in ways:
        print(f"{name}: {wall[name]:.1f} s, {cpu[name]:.1f} s of CPU")
    labels = torch.from_numpy(split.labels)
    right, losses = ([measure(logits[name]) for name in ways] for measure in (
        lambda found: (found.argmax(-1) == labels).sum(1),
        lambda found: torch.stack([F.cross_entropy(each.double(), labels) for each in found]),
    ))  # fmt: skip
    print(f"heads whose accuracy differs: {int((right[0] != right[1]).sum())}")
    print(f"largest difference of a loss: {(losses[0] - losses[1]).abs().max():.1e}")


if __name__ == "__main__":
    main()
