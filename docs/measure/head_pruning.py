"""Accuracy against the share of heads removed without retraining, by score: Michel et al. 2019 (figure 1) on our task.

    python docs/measure/head_pruning.py runs/quickstart [runs/other-seed ...] --out docs

Each run gives its teacher, training rows to score on and test rows; those in docs are quickstart's with `finetune` as
it is by default, since a teacher trained without dropout leans on more of its heads. Seeds vary the sample of scoring
rows and the random order. Heads are masked, which gives the logits of the cut model. Writes `head_pruning.svg` and
`.md`. The score "ablation in parts" takes an hour of CPU time a teacher, so it must be asked for (`--ablation`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import mean

import torch

from assay.core.artifact import Artifact
from assay.core.data.prepare import JobData
from assay.core.machine import describe_machine
from assay.core.model.masks import mask_heads
from assay.core.model.predict import TorchPredictor
from assay.run.saved_data import read_job_data
from assay.run.sensitivity import find_weights
from compress.pruning import removal_rounds, score_units, scoring_subject
from compress.scores.subject import Subject
from compress.scoring import keep_best
from compress.step import Context
from reports.charts import Frame, Series, lines

TENTHS = range(1, 10)
SLOW = "ablation in parts"
SCORES = (SLOW, "gradient in parts", "gradient", "confidence", "magnitude", "random")
IN_PARTS = " in parts"
Kept = list[list[int]]
Curve = dict[int, float]  # tenths of the heads removed -> accuracy


def main() -> None:
    """Measure every run with every seed, then draw."""
    asked = arguments()
    curves: dict[str, list[Curve]] = {name: [] for name in SCORES if asked.ablation or name != SLOW}
    for run in asked.runs:
        artifact, data = teacher_of(run, asked.rows)
        predictor = TorchPredictor(artifact, data.max_length)
        known: dict[str, float] = {}
        for seed in range(asked.seeds):
            context = Context(seed, data, scratch=run / "scratch")
            subject = scoring_subject("heads", predictor.module, artifact, context, asked.scoring_rows)
            for name in curves:
                curve = {0: accuracy(predictor, subject, [[*range(size)] for size in subject.sizes], data, known)}
                curve |= {at: accuracy(predictor, subject, kept, data, known) for at, kept in removed(name, subject)}
                curves[name].append(curve)
                print(f"{run}, seed {seed}, {name}: {' '.join(f'{value:.3f}' for value in curve.values())}", flush=True)
    rows = f"scoring rows {asked.scoring_rows}, test rows {len(data.test)}"
    about = f"teachers {len(asked.runs)}, seeds {asked.seeds}, {rows}"
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "head_pruning.svg").write_text(chart(curves))
    (asked.out / "head_pruning.md").write_text(table(curves, about))


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, help="run folders whose teacher is finished")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000, help="test rows")
    parser.add_argument("--scoring-rows", type=int, default=256, help="training rows that scores are averaged over")
    parser.add_argument("--ablation", action="store_true", help="also the loss without each head, in parts: slow")
    return parser.parse_args()


def teacher_of(run: Path, rows: int) -> tuple[Artifact, JobData]:
    """The teacher and the rows of a run, at most `rows` test rows."""
    record = json.loads((run / "run.json").read_text())
    _, artifact = find_weights(run, record, "teacher")
    data = read_job_data(run)
    return artifact, replace(data, test=data.test.take(range(min(rows, len(data.test)))), fingerprint=artifact.key)


def removed(name: str, subject: Subject) -> Iterator[tuple[int, Kept]]:
    """(tenths of the heads removed, heads that stay in each layer)."""
    if name.endswith(IN_PARTS):
        rounds = removal_rounds(
            name.removesuffix(IN_PARTS), subject, TENTHS[-1] / 10, per_layer=False, iterations=len(TENTHS)
        )
        yield from ((at, kept) for at, (kept, _) in zip(TENTHS, rounds, strict=True))
        return
    scores = score_units(name, subject)
    yield from ((at, keep_best(scores, at / 10)) for at in TENTHS)


def accuracy(predictor: TorchPredictor, subject: Subject, kept: Kept, data: JobData, known: dict[str, float]) -> float:
    """Share of test rows answered right with only these heads; remembered, since scores agree on many."""
    key = str(kept)
    if key not in known:
        masks = [torch.zeros(size) for size in subject.sizes]
        for mask, heads in zip(masks, kept, strict=True):
            mask[heads] = 1
        with mask_heads(predictor.module, subject.family, masks):
            logits = predictor.logits(data.test.texts)
        known[key] = float((logits.argmax(axis=1) == data.test.labels).mean())
    return known[key]


def chart(curves: dict[str, list[Curve]]) -> str:
    """Mean accuracy of each score with the lowest and highest of all seeds, as a drawing of its own."""
    series = [
        Series(name, [(10 * at, mean(values)) for at, values in spread(found)],
               [(min(values), max(values)) for _, values in spread(found)], look)
        for look, (name, found) in enumerate(curves.items())
    ]  # fmt: skip
    drawn = lines(series, "heads removed, %", "test accuracy", "Heads removed without retraining, by score",
                  x_range=(0, 90), frame=Frame(760, 400))  # fmt: skip
    style = Path(lines.__code__.co_filename).parent / "templates" / "style.css"
    return str(drawn).replace("</desc>", f"</desc><style>{style.read_text()}</style>", 1)


def table(curves: dict[str, list[Curve]], about: str) -> str:
    """Markdown: share of the whole model's accuracy that is kept, with the lowest and highest of all seeds."""
    out = [f"| heads removed | {' | '.join(curves)} |", "|---" + "|---:" * len(curves) + "|"]
    for at in TENTHS:
        cells = [kept_share([curve[at] / curve[0] for curve in found]) for found in curves.values()]
        out.append(f"| {at * 10} % | {' | '.join(cells)} |")
    whole = mean(curve[0] for found in curves.values() for curve in found)
    told = (
        f"Share of the whole model's accuracy ({whole:.3f}) that is kept when heads are removed and nothing is trained "
        f"after, mean and range: {about}. In parts: scored anew after each tenth. {date.today()}, "
        f"{describe_machine()['cpu']}; made by `docs/measure/head_pruning.py`, after Michel et al. 2019 (figure 1)."
    )
    page = ["# Heads removed without retraining", "", told, "", "![The curves](head_pruning.svg)", "", *out]
    return "\n".join(page) + "\n"


def spread(found: list[Curve]) -> list[tuple[int, list[float]]]:
    """Tenths removed -> the accuracies of all seeds."""
    return [(at, [curve[at] for curve in found]) for at in (0, *TENTHS)]


def kept_share(shares: list[float]) -> str:
    """98.3 % (97.9 to 98.6)."""
    low, middle, high = (100 * value for value in (min(shares), mean(shares), max(shares)))
    return f"{middle:.1f} % ({low:.1f} to {high:.1f})"


if __name__ == "__main__":
    main()
