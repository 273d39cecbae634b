"""A graph is the same for its callers whoever wrote it, and who wrote it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
import torch
from by_family import OF_TEXTS, case
from tiny_models import write_tiny

from assay.core.artifact import GRAPH, Artifact, Task, open_source
from assay.core.errors import AssayError, InputError, SettingError
from assay.core.model import export as exporting
from assay.core.model.anatomy import FAMILIES
from assay.core.model.export import Exported, export
from assay.core.model.generations import why_no_optimum
from assay.core.model.graph import as_onnx, fused_operators
from assay.core.model.inputs import INPUTS, OUTPUTS
from assay.core.model.load import load_module, load_tokenizer
from assay.core.model.predict import open_predictor
from compress.steps.export_onnx import ExportOnnx

TEXTS = ["a great film", "dull", ""]
AXES = ["batch_size", "sequence_length"]
SEGMENTED = ["albert", "bert", "electra"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Artifact]:
    """A family's two-layer model, made once."""
    folder = tmp_path_factory.mktemp("sources")

    def make(family: str) -> Artifact:
        if not (folder / family).is_dir():
            write_tiny(folder / family, family, layers=2)
        return open_source(folder / family, "text-classification")

    return make


def write(source: Artifact, out: Path, **settings: Any) -> Exported:
    return export(load_module(source), load_tokenizer(source), out, **settings)


def ends(graph: Path) -> list[tuple[str, list[str | int]]]:
    """(name, axes) of the inputs and outputs in their order; axes are names or sizes."""
    parts = onnx.load(graph).graph
    return [
        (end.name, [axis.dim_param or axis.dim_value for axis in end.type.tensor_type.shape.dim])
        for end in [*parts.input, *parts.output]
    ]


def test_every_family_and_task_has_its_inputs() -> None:
    assert set(INPUTS) == set(FAMILIES)
    assert set(OUTPUTS) == set(get_args(Task))


BY_BOTH = [family for family in ("bert", "distilbert", "gpt2", "bart") if why_no_optimum() is None]
# The TorchScript exporter cannot write the masks that decoders have in transformers 4.
BY_TORCH = [family for family in OF_TEXTS if family not in ("gpt2", "llama") or not BY_BOTH]


@pytest.mark.parametrize(
    ("family", "exporter"),
    [
        *(case(each, "torch", slow=each not in ("bart", "bert")) for each in BY_TORCH),
        *(case(each, "optimum", slow=each != "bert") for each in BY_BOTH),
    ],
)
def test_names_axes_answers_and_fused_operators_are_those_of_the_family(
    family: str, exporter: str, source: Callable[[str], Artifact], tmp_path: Path
) -> None:
    model = source(family)
    exported = write(model, tmp_path, exporter=exporter)
    names = ["input_ids", "attention_mask", *["token_type_ids"] * (family in SEGMENTED)]
    assert ends(tmp_path / GRAPH) == [*((name, AXES) for name in names), ("logits", ["batch_size", 2])]
    expected, found = (open_predictor(item, 32).logits(TEXTS) for item in (model, as_onnx(model, tmp_path)))
    assert found == pytest.approx(expected, abs=1e-5)
    assert np.ptp(expected[:, 0]) > 0.01
    if family not in ("gpt2", "llama", "t5"):  # they have other norms, or another activation
        fused = fused_operators(tmp_path / GRAPH)
        norms = fused.get("LayerNormalization", 0) + fused.get("SkipLayerNormalization", 0)
        assert norms == (7 if family == "bart" else 5), fused  # one after the embeddings, two a layer; three in BART's
        assert fused.get("Gelu", 0) + fused.get("BiasGelu", 0) + fused.get("FastGelu", 0) >= 2, fused
    assert exported == Exported({"optimum": "optimum", "torch": "torch (TorchScript)"}[exporter], None)


def test_weights_have_the_names_of_the_model(source: Callable[[str], Artifact], tmp_path: Path) -> None:
    write(source("bert"), tmp_path, exporter="torch")
    names = {item.name for item in onnx.load(tmp_path / GRAPH).graph.initializer}
    assert {"bert.embeddings.word_embeddings.weight", "classifier.weight"} <= names


def test_the_module_takes_and_gives_what_it_did(source: Callable[[str], Artifact], tmp_path: Path) -> None:
    model = source("bert")
    module, tokenizer = load_module(model), load_tokenizer(model)
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    before = module(**inputs).logits
    export(module, tokenizer, tmp_path, exporter="torch")
    assert torch.equal(module(**inputs, output_hidden_states=True).logits, before)
    assert "forward" not in vars(module)


def fails(name: str) -> Callable[..., None]:
    def raise_error(*args: Any) -> None:
        raise RuntimeError(f"{name} cannot\nmore")

    return raise_error


@pytest.mark.parametrize(("broken", "by"), [((), "TorchScript"), (("torchscript",), "dynamo")])
def test_the_second_exporter_steps_in_and_the_reason_is_kept(
    broken: tuple[str, ...],
    by: str,
    source: Callable[[str], Artifact],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one is played by the first, which is quicker; see below for the real one."""
    monkeypatch.setattr(exporting, "dynamo", exporting.torchscript)
    for name in broken:
        monkeypatch.setattr(exporting, name, fails(name))
    monkeypatch.setattr(exporting, "why_no_optimum", lambda: "optimum is away")
    exported = write(source("distilbert"), tmp_path)
    failure = "; the TorchScript exporter failed with RuntimeError: torchscript cannot" if broken else ""
    assert exported == Exported(f"torch ({by})", f"optimum is away{failure}")
    assert (tmp_path / GRAPH).is_file()


def test_two_failures_are_told_together(
    source: Callable[[str], Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torchscript", "dynamo"):
        monkeypatch.setattr(exporting, name, fails(name))
    with pytest.raises(
        AssayError, match=r"no graph: .*RuntimeError: torchscript cannot; .*RuntimeError: dynamo cannot$"
    ):
        write(source("distilbert"), tmp_path, exporter="torch")


@pytest.mark.slow
@pytest.mark.parametrize("family", [family for family in OF_TEXTS if len(FAMILIES[family].stacks) == 1])
def test_the_dynamo_exporter_writes_the_same_graph(
    family: str, source: Callable[[str], Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "torchscript", fails("torchscript"))
    model = source(family)  # of two stacks: what is read stands at an end token that torch.export cannot place
    assert write(model, tmp_path, exporter="torch").exporter == "torch (dynamo)"
    assert [name for name, _ in ends(tmp_path / GRAPH)] == [*INPUTS[family], "logits"]
    expected, found = (open_predictor(item, 32).logits(TEXTS, 2, 40) for item in (model, as_onnx(model, tmp_path)))
    assert found == pytest.approx(expected, abs=1e-5)
    assert sorted(path.name for path in tmp_path.glob("model*")) == [GRAPH]


def test_optimum_is_refused_by_name_where_it_cannot_be_used(
    source: Callable[[str], Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("assay.core.model.export", "compress.steps.export_onnx"):
        monkeypatch.setattr(f"{module}.why_no_optimum", lambda: "optimum not installed")
    with pytest.raises(InputError, match="exporter optimum: optimum not installed"):
        write(source("bert"), tmp_path, exporter="optimum")
    assert not list(tmp_path.iterdir())
    with pytest.raises(
        SettingError, match=r"export_onnx\.exporter: optimum: optimum not installed, or use auto or torch"
    ):
        ExportOnnx(exporter="optimum").check(None, None)  # type: ignore[arg-type]
    assert ExportOnnx().check(None, None) is None  # type: ignore[arg-type]
