"""What holds for every step and every probe that is on the shelves, found by file name.

A new method is tested here as soon as its file exists. A step must say in `MINIMAL` with which settings to run it, a
probe with settings that have no default in `MINIMAL_OF_PROBES`.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import BaseModel, ValidationError
from rich.console import Console
from tiny_images import image_rows, write_images
from tiny_jobs import SEED, carry_out, finish, job_data
from tiny_models import write_tiny

from assay.core.artifact import GRAPH, WEIGHTS, Artifact, open_source
from assay.core.errors import NotGiven
from assay.core.manifest import Manifest, hash_file, hash_folder, is_done
from assay.core.model.edits import layout_of
from assay.core.model.predict import Predictor, open_predictor
from assay.core.plugins import PROBES, STEPS, Shelf
from assay.run.execute import Workshop
from assay.run.plan import Node
from assay.run.progress import Display
from compress.step import Step
from probe.probe import ProbeContext

TESTS = Path(__file__).parent
BRIEF = {"epochs": 0.5, "batch_size": 8}
MINIMAL: dict[str, dict[str, Any]] = {
    "cut_vocab": {},
    "distil": BRIEF,
    "duplicate_layers": {"layers": [0]},
    "export_onnx": {},
    "factorise": {"budget": 0.5, "embedding_rank": 8},
    "finetune": BRIEF,
    "l0_factorise": BRIEF | {"sparsity": 0.5},
    "l0_prune": BRIEF | {"sparsity": 0.5},
    "prune_ffn": {"fraction": 0.5, "rows": 8},
    "prune_heads": {"fraction": 0.25, "rows": 8},
    "prune_layers": {"keep": 1},
    "prune_weights": {"fraction": 0.5},
    "quantize": {},
    "reduce_width": {"width": 16, "rows": 8},
    "share_layers": {"every": 2},
    "sparse_finetune": BRIEF | {"fraction": 0.5},
}
FILES = TESTS / "probe" / "files"
TREES = {name: str(FILES / f"{name}.conllu") for name in ("train", "test")}
MINIMAL_OF_PROBES: dict[str, dict[str, Any]] = {
    "cloze": {"facts": str(FILES / "facts.jsonl")},
    "edges": TREES,
    "heads": {"treebank": TREES["train"]},
    "minimal_pairs": {"pairs": str(FILES / "pairs.jsonl")},
    "senteval": {"files": [str(FILES / "length.tsv")]},
    "structure": TREES,
    "tokens": TREES,
    "trees": {"treebank": TREES["train"]},
    "triples": {
        "triples": str(FILES / "triples.jsonl"),
        "templates": {"IsA": ["a [X] is a [Y]", "the [X] is a [Y] film"], "HasA": ["a [X] has a [Y]"]},
    },
}
OF_LANGUAGE_MODELS = ("cloze", "minimal_pairs", "surprisal", "triples")  # probes that a classifier cannot answer
OF_MODELS_OF_IMAGES = ("corruptions",)
METHODS = [pytest.param(shelf, name, id=name) for shelf in (STEPS, PROBES) for name in shelf.names()]
every_method = pytest.mark.parametrize(("shelf", "name"), METHODS)
every_step = pytest.mark.parametrize("name", STEPS.names())
every_probe = pytest.mark.parametrize("name", PROBES.names())


def settings_of(shelf: Shelf, name: str) -> dict[str, Any]:
    if shelf is STEPS and name not in MINIMAL:
        pytest.fail(f"add an entry for {name!r} to MINIMAL in tests/test_contracts.py: the least settings it runs with")
    return MINIMAL[name] if shelf is STEPS else MINIMAL_OF_PROBES.get(name, {})


def made(shelf: Shelf, name: str) -> BaseModel:
    return shelf.get(name)(**settings_of(shelf, name))


def test_no_entry_is_left_of_a_step_that_went() -> None:
    assert set(MINIMAL) <= set(STEPS.names())
    assert set(MINIMAL_OF_PROBES) <= set(PROBES.names())


@every_method
def test_settings_survive_the_way_through_plain_data_and_json(shelf: Shelf, name: str) -> None:
    settings, kind = made(shelf, name), shelf.get(name)
    assert kind.model_validate(settings.model_dump()) == settings
    assert kind.model_validate_json(settings.model_dump_json()) == settings


@every_method
def test_an_unknown_setting_is_refused_by_name(shelf: Shelf, name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        shelf.get(name)(**settings_of(shelf, name), no_such_setting=1)
    assert [error["loc"] for error in caught.value.errors()] == [("no_such_setting",)]


@every_method
def test_a_bad_value_is_refused_by_the_name_of_its_setting(shelf: Shelf, name: str) -> None:
    for field in shelf.get(name).model_fields:
        with pytest.raises(ValidationError) as caught:
            shelf.get(name)(**settings_of(shelf, name) | {field: object()})
        assert {error["loc"][0] for error in caught.value.errors()} == {field}


@every_method
def test_settings_cannot_be_changed(shelf: Shelf, name: str) -> None:
    settings = made(shelf, name)
    for field in type(settings).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(settings, field, getattr(settings, field))


@every_method
def test_tiny_settings_are_settings_of_the_same_method(shelf: Shelf, name: str) -> None:
    tiny = made(shelf, name).tiny()
    assert type(tiny) is shelf.get(name)
    assert shelf.get(name).model_validate(tiny.model_dump()) == tiny


@every_method
def test_a_method_says_what_it_is_and_has_a_test(shelf: Shelf, name: str) -> None:
    kind = shelf.get(name)
    assert importlib.import_module(kind.__module__).__doc__
    assert vars(kind)["__doc__"]
    assert isinstance(kind.version, int)
    assert kind.version >= 1
    assert (TESTS / shelf.package.partition(".")[0] / f"test_{name}.py").is_file()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that a step may read: the model in torch and in ONNX, and another model as teacher."""
    folder = tmp_path_factory.mktemp("shop")
    write_tiny(folder / "torch", layers=2)
    write_tiny(folder / "teacher", layers=2, seed=7)
    carry_out(folder, open_source(folder / "torch", "text-classification"), [("export_onnx", {})])
    (made_by_export,) = (path.parent for path in folder.glob("*/model.onnx"))
    made_by_export.rename(folder / "onnx")
    return folder


@pytest.fixture(scope="module")
def showing(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The same model as a graph with its hidden states."""
    source = open_source(shop / "torch", "text-classification")
    return carry_out(tmp_path_factory.mktemp("showing"), source, [("export_onnx", {"hidden_states": True})])


def lineage(shop: Path, step: Step) -> list[Artifact]:
    """What went before the step: its last artifact has the format the step takes."""
    source = open_source(shop / "torch", "text-classification")
    manifest = Manifest.read(shop / "onnx")
    assert manifest is not None
    graph = Artifact(shop / "onnx", manifest.key, "onnx", source.task, source.family)
    return [source] if step.takes == "torch" else [source, graph]


def teacher(shop: Path) -> Artifact:
    return open_source(shop / "teacher", "text-classification")


@pytest.fixture(scope="module")
def finished(shop: Path) -> Callable[[str], Artifact]:
    """The result of a step with its minimal settings, made once."""
    results: dict[str, Artifact] = {}

    def make(name: str) -> Artifact:
        if name not in results:
            step = made(STEPS, name)
            results[name] = finish(shop, f"{name:_<12}", step, lineage(shop, step), job_data(), teacher(shop))
        return results[name]

    return make


@every_step
def test_the_result_loads_and_predicts(name: str, finished: Callable[[str], Artifact]) -> None:
    artifact = finished(name)
    assert artifact.format == STEPS.get(name).gives
    logits = open_predictor(artifact, 32).logits([*job_data().test.texts, ""])
    assert logits.shape == (13, 2)
    assert np.isfinite(logits).all()
    assert artifact.labels == ("neg", "pos")


@every_step
def test_a_step_foretells_the_layout_of_its_result(name: str, shop: Path, finished: Callable[[str], Artifact]) -> None:
    """Layers exactly; of heads and neurons at least those that are left. None is the answer where it cannot."""
    step, result = made(STEPS, name), finished(name)
    before = layout_of(lineage(shop, step)[-1].config)
    told, left = step.check(before, before), layout_of(result.config, result.edits)
    if told is None:
        return
    assert [layer.index for layer in told.layers] == [layer.index for layer in left.layers]
    for promised, kept in zip(told.layers, left.layers, strict=True):
        assert set(kept.heads) <= set(promised.heads)
        assert set(kept.neurons) <= set(promised.neurons)


@every_step
def test_facts_are_plain_data(name: str, finished: Callable[[str], Artifact]) -> None:
    facts = Manifest.read(finished(name).path).facts
    assert facts
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def content(folder: Path, *but: Path) -> dict[Path, tuple[int, str]]:
    """Time of change and hash of all below a folder, folders too: their time tells of files that came and went."""
    paths = [folder, *folder.rglob("*")]
    kept = [path for path in paths if not any(path.is_relative_to(other) for other in but)]
    return {path: (path.stat().st_mtime_ns, hash_file(path) if path.is_file() else "") for path in kept}


def workshop(folder: Path) -> Workshop:
    """Carries out steps as a run in `folder` does, and shows nothing."""
    return Workshop(folder, job_data(), SEED, Display({}, Console(file=StringIO())))


@every_step
def test_an_interrupted_step_is_not_done_and_done_again_gives_the_same_bytes_where_it_may_write(
    name: str, shop: Path, finished: Callable[[str], Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at the last moment: all is written but the manifest."""
    step, first = made(STEPS, name), finished(name)
    source, *between = lineage(shop, step)
    home, here = tmp_path / "run", tmp_path / "here"
    node = Node(name, step, "key", home / "store" / name)
    chain = (*(Node("export_onnx", made(STEPS, "export_onnx"), graph.key, graph.path) for graph in between), node)
    for path in (home, here):
        path.mkdir()
    before = content(shop) | content(tmp_path, home)

    def carry_out_once() -> Artifact:
        torch.manual_seed(99)  # another process starts from another state
        np.random.seed(99)
        with monkeypatch.context() as patch:
            patch.chdir(here)
            return workshop(home).carry_out(chain, source, teacher(shop))

    def killed(manifest: Manifest, folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            carry_out_once()
    assert not node.done
    again = carry_out_once()
    assert node.done
    assert content(shop) | content(tmp_path, home) == before
    may_write = (node.folder, home / "cache")  # the second holds the teacher's answers, which the workshop keeps
    written = [path for path in home.rglob("*") if path.is_file()]
    assert [path for path in written if not any(path.is_relative_to(folder) for folder in may_write)] == []
    assert hash_folder(again.path) == hash_folder(first.path)
    assert set(hash_folder(again.path).values()) != set(hash_folder([source, *between][-1].path).values())


@every_step
def test_a_damaged_result_is_not_done(name: str, finished: Callable[[str], Artifact], tmp_path: Path) -> None:
    artifact = finished(name)
    assert is_done(artifact.path, artifact.key)
    copy = tmp_path / "copy"
    shutil.copytree(artifact.path, copy)
    weights = copy / (GRAPH if artifact.format == "onnx" else WEIGHTS)
    weights.write_bytes(weights.read_bytes()[:-1])
    assert not is_done(copy, artifact.key)


@pytest.fixture(scope="module")
def opened(shop: Path, showing: Artifact) -> dict[str, Predictor]:
    """The shop's models, opened once for all probes, which must leave them as they are."""
    source, plain = lineage(shop, made(STEPS, "quantize"))
    artifacts = {"torch": source, "teacher": teacher(shop), "plain": plain, "showing": showing}
    return {name: open_predictor(artifact, 32) for name, artifact in artifacts.items()}


@pytest.fixture(scope="module")
def naming(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    """The same of a model that names tokens, of which no probe but those of answers asks for a graph."""
    folder = tmp_path_factory.mktemp("naming")
    for name, seed in (("torch", 0), ("teacher", 7)):
        write_tiny(folder / name, layers=2, seed=seed, task="fill-mask")
    artifacts = {name: open_source(folder / name, "fill-mask") for name in ("torch", "teacher")}
    artifacts["plain"] = carry_out(folder, artifacts["torch"], [("export_onnx", {})], job_data(task="fill-mask"))
    return {name: open_predictor(artifact, 32) for name, artifact in artifacts.items()}


@pytest.fixture
def subjects(name: str, request: pytest.FixtureRequest) -> dict[str, Predictor]:
    """The models that the probe of that name examines."""
    kinds = {"naming": OF_LANGUAGE_MODELS, "seeing": OF_MODELS_OF_IMAGES}
    return request.getfixturevalue(next((kind for kind, names in kinds.items() if name in names), "opened"))


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    """The same of a model of images, which lie beside it."""
    pytest.importorskip("PIL", reason="Pillow is not installed: pip install pillow")
    folder = tmp_path_factory.mktemp("seeing")
    write_images(folder / "images", rows=12)
    for name, seed in (("torch", 0), ("teacher", 7)):
        write_tiny(folder / name, "vit", layers=2, seed=seed, task="image-classification")
    artifacts = {name: open_source(folder / name, "image-classification") for name in ("torch", "teacher")}
    return {name: open_predictor(artifact, 32) for name, artifact in artifacts.items()}


def context_of(full: Predictor) -> ProbeContext:
    task, images = full.artifact.task, full.artifact.path.parent / "images"
    rows = None if task != "image-classification" else image_rows(images)
    return ProbeContext(SEED, job_data(rows, rows, task), full, log=lambda line: None)


@every_probe
def test_a_probe_finds_the_same_again_and_leaves_the_model_alone(
    name: str, shop: Path, subjects: dict[str, Predictor]
) -> None:
    probe, model, full = made(PROBES, name).tiny(), subjects["torch"], subjects["teacher"]
    texts = context_of(full).data.test.texts
    before, answers = content(shop), [each.logits(texts) for each in (model, full)]
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        runs.append(probe.run(model, context_of(full)))
    assert runs[0] == runs[1]
    assert runs[0].metrics
    assert content(shop) == before
    assert all((each.logits(texts) == was).all() for each, was in zip((model, full), answers, strict=True))
    assert json.loads(json.dumps(runs[0].details, allow_nan=False)) == runs[0].details


@every_probe
def test_a_probe_says_what_it_needs(name: str, subjects: dict[str, Predictor]) -> None:
    """One that looks inside cannot examine a graph of logits; one of hidden states can where the graph shows them."""
    probe = made(PROBES, name).tiny()
    able = {"logits": ["plain", "showing"], "states": ["showing"], "torch": []}[probe.needs]
    examine = context_of(subjects["teacher"])
    for graph in sorted({"plain", "showing"} & subjects.keys()):
        if graph in able:
            assert probe.run(subjects[graph], examine).metrics
        else:
            with pytest.raises(NotGiven):
                probe.run(subjects[graph], examine)
