"""What `assay analyse sensitivity` costs against a hooked pass a head: the same rows in turns, the same answers.

    python docs/measure/sensitivity.py runs/quickstart

Prints seconds of both for all heads of the teacher, and how far accuracies and losses are apart.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch.nn import functional as F

from assay.core.model.ablate import Cut
from assay.core.model.ablate_batches import logits_without_of_each
from assay.core.model.anatomy import family_of
from assay.core.model.edits import layout_of
from assay.core.model.encoder import Encoder
from assay.core.model.load import load_module, load_tokenizer
from assay.core.model.masks import mask_heads
from assay.core.model.predict import EVAL_BATCH, tensors
from assay.run.saved_data import read_split
from assay.run.sensitivity import BATCH, find_weights, longest_first

Batches = Sequence[dict[str, torch.Tensor]]
Answer = Callable[[Batches], Iterator[torch.Tensor]]
TURN = 64


def main() -> None:
    """Both ways take turns, some rows at a time, so that a busy neighbour slows both alike."""
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

    def at_once(batches: Batches) -> Iterator[torch.Tensor]:
        return (found for _, found in logits_without_of_each(module, family, batches, cuts))

    @torch.inference_mode()
    def one_by_one(batches: Batches) -> Iterator[torch.Tensor]:
        for inputs in batches:
            found = []
            for cut in cuts:
                masks = [torch.ones(count) for count in heads]
                masks[cut.layer][list(cut.units)] = 0
                with mask_heads(module, family, masks):
                    found.append(module(**inputs).logits)
            yield torch.stack(found)

    ways: dict[str, tuple[Answer, int]] = {"at once": (at_once, BATCH), "one by one": (one_by_one, EVAL_BATCH)}
    logits = {name: torch.zeros(len(cuts), len(split), module.config.num_labels) for name in ways}
    wall, cpu = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    encoder = Encoder(load_tokenizer(artifact), record["job"]["data"]["max_length"])
    for places, inputs in encoder.batches(split.texts, TURN):
        texts = [split.texts[place] for place in places]
        for name, (answer, size) in ways.items():
            started, used = time.perf_counter(), time.process_time()
            batches = longest_first(encoder, texts, size)
            for (rows, _), found in zip(batches, answer([tensors(each) for _, each in batches]), strict=True):
                logits[name][:, [places[row] for row in rows]] = found
            wall[name] += time.perf_counter() - started
            cpu[name] += time.process_time() - used
        so_far = ", ".join(f"{name} {wall[name]:.1f} s ({cpu[name]:.1f} s of CPU)" for name in ways)
        print(f"  {len(places)} rows of up to {inputs['input_ids'].shape[1]} tokens; so far {so_far}", flush=True)
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
