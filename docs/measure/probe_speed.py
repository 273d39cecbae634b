"""Measure how fast probe classifiers are fitted together, against scikit-learn's LogisticRegression one by one.

    python docs/measure/probe_speed.py                                    made-up states of MiniLM's size
    python docs/measure/probe_speed.py --teacher runs/NAME/store/finetune-KEY12     states of a run's teacher

Six label sets and a control for each, on the same texts and for every layer: with a teacher the class, the quartile of
the length, two swapped words, a comma, a negation, and the tercile of the mean word length; made up, labels that a
layer's states tell more or less well. All methods standardise the states and predict the held-out rows; they take
turns, on one thread each. Prints machine, date, seed, and CPU seconds as the median of the rounds with their range.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from assay.core.artifact import open_finished
from assay.core.machine import describe_machine, package_versions
from assay.core.model.predict import TorchPredictor
from probe.classifiers import STRENGTH, fit_classifiers, predict_together, standardise
from probe.pooling import pooled_states
from probe.tasks import bigram_shift_task, control_labels, length_task
from probe.word_spans import word_spans

LAYERS, WIDTH = 7, 384  # of all-MiniLM-L6, the embedding output counted
CLASSES = (2, 4, 2, 2, 6, 3)
NEGATIONS = frozenset({"no", "not", "never", "nothing", "n't", "don't", "doesn't", "isn't"})


class Data(NamedTuple):
    """layers: float32 [layers, rows, width]; label_sets: int64 [rows] each, tasks and controls in turn; the first
    `fitted_on` rows fit the classifiers, the others score them. `read_s`: wall seconds the model read the texts for."""

    layers: np.ndarray
    label_sets: list[np.ndarray]
    fitted_on: int
    read_s: float | None = None


def made_up(rows: int, held_out: int, seed: int) -> Data:
    """Layers that mix the same source, of an uneven spectrum, and more and more noise; labels that the source tells."""
    rng = np.random.default_rng(seed)
    source = rng.normal(size=(rows + held_out, WIDTH)) * np.arange(1, WIDTH + 1) ** -0.5
    layers = np.stack([_mixed(rng, source, noise) for noise in np.geomspace(0.01, 1, LAYERS)])
    sets = []
    for classes, noise in zip(CLASSES, np.geomspace(0.1, 3, len(CLASSES)), strict=True):
        scores = source @ rng.normal(size=(WIDTH, classes))
        sets += [(scores + noise * rng.gumbel(size=scores.shape)).argmax(1), rng.integers(classes, size=len(scores))]
    return Data(layers, sets, rows)


def _mixed(rng: np.random.Generator, source: np.ndarray, noise: float) -> np.ndarray:
    noisy = source + noise * source.std() * rng.normal(size=source.shape)
    return (noisy @ rng.normal(size=(WIDTH, WIDTH))).astype(np.float32)


def of_teacher(folder: Path, rows: int, held_out: int, seed: int) -> Data:
    """Mean-pooled states of the run's train texts, in half of which two words were swapped."""
    table = pd.read_parquet(folder.parent.parent / "data" / "train.parquet").head(2 * (rows + held_out))
    task = bigram_shift_task(table.text.tolist(), [], seed, max_words=64).train
    if len(task.texts) < rows + held_out:
        raise SystemExit(f"{folder}: {len(task.texts)} train texts are long enough, {rows + held_out} are asked for")
    texts, shifted = task.texts[: rows + held_out], task.labels[: rows + held_out]
    classes = dict(zip(table.text.map(_bag), table.label, strict=True))  # the same words, whatever their order
    sets = [np.array([classes[_bag(text)] for text in texts]), length_task(texts, []).train.labels, shifted]
    sets += [np.array([question(text) for text in texts]) for question in (_has_comma, _is_negated)]
    sets.append(_terciles([float(np.mean([end - start for start, end in word_spans(text)])) for text in texts]))
    model = TorchPredictor(open_finished(folder), max_length=128)
    start = time.perf_counter()
    layers = np.stack(pooled_states(model, texts, ["mean"])["mean"])
    read_s = time.perf_counter() - start
    label_sets = [each for labels in sets for each in (labels, control_labels(texts, labels, seed))]
    return Data(layers, label_sets, rows, read_s)


def _bag(text: str) -> str:
    return " ".join(sorted(text.lower()[start:end] for start, end in word_spans(text)))


def _has_comma(text: str) -> int:
    return int("," in text)


def _is_negated(text: str) -> int:
    return int(bool(NEGATIONS & set(text.lower().split())))


def _terciles(values: list[float]) -> np.ndarray:
    return np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)


Method = Callable[[np.ndarray, Data], list[float]]  # accuracies of a layer's classifiers, one a label set


def together(layer: np.ndarray, data: Data) -> list[float]:
    """As the probes do it."""
    states = torch.from_numpy(layer)
    train, test = standardise(states[: data.fitted_on], states[data.fitted_on :])
    fits = fit_classifiers(train, [labels[: data.fitted_on] for labels in data.label_sets])
    if not all(fit.converged for fit in fits):
        raise SystemExit("a fit did not converge")
    return _accuracies(predict_together(fits, test), data)


def one_by_one(layer: np.ndarray, data: Data, **settings: float) -> list[float]:
    """A scikit-learn LogisticRegression for each label set."""
    scaler = StandardScaler().fit(layer[: data.fitted_on])
    train, test = scaler.transform(layer[: data.fitted_on]), scaler.transform(layer[data.fitted_on :])
    fits = [
        LogisticRegression(C=STRENGTH, **settings).fit(train, labels[: data.fitted_on]) for labels in data.label_sets
    ]
    return _accuracies([fit.predict(test) for fit in fits], data)


def _accuracies(predictions: list[np.ndarray], data: Data) -> list[float]:
    truths = [labels[data.fitted_on :] for labels in data.label_sets]
    return [float((named == truth).mean()) for named, truth in zip(predictions, truths, strict=True)]


METHODS: dict[str, Method] = {
    "together": together,
    "scikit-learn, its defaults": one_by_one,
    "scikit-learn, tol=1e-3": lambda layer, data: one_by_one(layer, data, tol=1e-3, max_iter=50),
}


def take_turns(data: Data, rounds: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(CPU seconds [rounds], accuracies [layers, label sets]) of each method. Turns change layer by layer, so that a
    busy neighbour disturbs all alike; a first round on one layer is thrown away."""
    seconds = {name: np.zeros(rounds) for name in METHODS}
    found: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    for method in METHODS.values():
        method(data.layers[0], data)
    for turn in range(rounds):
        for layer in data.layers:
            for name, method in METHODS.items():
                start = time.process_time()
                accuracies = method(layer, data)
                seconds[name][turn] += time.process_time() - start
                found[name] += [accuracies] if turn == 0 else []
    return seconds, {name: np.array(rows) for name, rows in found.items()}


def _spread(values: np.ndarray, digits: int) -> str:
    return f"{np.median(values):.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"


def show(seconds: dict[str, np.ndarray], accuracies: dict[str, np.ndarray]) -> None:
    """One line a method, against the first."""
    print("| method | CPU seconds | times the first | accuracy less the first's, points: mean, largest |")
    print("|---|---|---|---|")
    for name, taken in seconds.items():
        points = 100 * (accuracies[name] - accuracies["together"])
        times = _spread(taken / seconds["together"], 1)
        print(f"| {name} | {_spread(taken, 2)} | {times} | {points.mean():+.2f}, {abs(points).max():.1f} |")
    print(f"accuracy, mean over layers and tasks: {accuracies['together'][:, ::2].mean():.3f}", end=", ")
    print(f"of the controls: {accuracies['together'][:, 1::2].mean():.3f}")


def _introduce(asked: argparse.Namespace, data: Data) -> None:
    machine, versions = describe_machine(), package_versions()
    libraries = ", ".join(f"{name} {versions[name]}" for name in ("torch", "scikit-learn", "numpy"))
    layers, _, width = data.layers.shape
    classes = ", ".join(str(len(np.unique(labels))) for labels in data.label_sets[::2])
    print(f"{date.today()}, {machine['cpu']}, {machine['cores']} cores, of which one is used; {libraries}")
    print(f"{'states of the teacher' if asked.teacher else 'made-up states'}, seed {asked.seed}, {asked.rounds} rounds")
    print(f"{layers} layers of width {width}, {asked.rows} rows to fit and {asked.held_out} to score")
    print(f"tasks with {classes} classes, and a control for each")
    if data.read_s is not None:
        print(f"the {asked.rows + asked.held_out} texts were read in {data.read_s:.1f} s, by all cores")


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, help="a finished model below runs/NAME/store")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=13)
    asked = parser.parse_args()
    sizes = (asked.rows, asked.held_out, asked.seed)
    data = of_teacher(asked.teacher, *sizes) if asked.teacher else made_up(*sizes)
    _introduce(asked, data)
    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, that a fit did not converge
        show(*take_turns(data, asked.rounds))


if __name__ == "__main__":
    main()
