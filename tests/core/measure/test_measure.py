"""Variants are measured on equal terms, and each figure is what its name says."""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tiny_jobs import carry_out
from tiny_models import MAX_TOKENS, WORDS, write_tiny

from assay.core.artifact import GRAPH, Artifact, open_source
from assay.core.errors import AssayError
from assay.core.measure import cold_start
from assay.core.measure import side_by_side as measuring
from assay.core.measure.child import TEXT, peak_rss_mib
from assay.core.measure.settings import MeasureSettings
from assay.core.measure.side_by_side import measure, memory_groups
from assay.core.measure.timed_batch import token_batch
from assay.core.measure.turns import Times, latency, take_turns, throughput, turns
from assay.core.measure.weights_count import Count, count_graph, count_module
from assay.core.model.anatomy import family_of
from assay.core.model.edits import apply_edits, edits_from_json
from assay.core.model.export import export
from assay.core.model.inputs import longest_input
from assay.core.model.load import load_module, load_tokenizer

SETTINGS = MeasureSettings(batch_size=1, throughput_batch_size=2, length=500, threads=1, rounds=4, warmup=1, starts=1)
UNEVEN = {0: [0], 2: [1, 2, 3]}
TIMED = ("latency_ms_p50", "latency_ms_p95", "cpu_ms_p50", "throughput_per_s", "peak_rss_mib", "cold_start_s")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A tiny model as it was pretrained."""
    folder = tmp_path_factory.mktemp("whole")
    write_tiny(folder)
    return open_source(folder, "text-classification")


@pytest.fixture(scope="module")
def sound(whole: Artifact, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """The same tiny model in torch, in ONNX and in 8 bits. It has uneven heads and a cut vocabulary, so that a folder
    that transformers alone cannot open is what fresh processes start from."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "texts").write_text(f"{TEXT}\n{WORDS}\n")
    chain = [("prune_heads", {"remove": UNEVEN}), ("cut_vocab", {"files": [str(folder / "texts")]})]
    cut = carry_out(folder, whole, chain)
    teacher = replace(cut, path=cut.path.rename(folder / "torch"))
    export(load_module(teacher), load_tokenizer(teacher), folder / "onnx")
    shutil.copytree(folder / "onnx", folder / "int8", ignore=shutil.ignore_patterns(GRAPH))
    quantize_dynamic(folder / "onnx" / GRAPH, folder / "int8" / GRAPH, weight_type=QuantType.QInt8, per_channel=True)
    return {"teacher": teacher, "teacher_onnx": in_onnx(teacher, "onnx"), "int8": in_onnx(teacher, "int8")}


def in_onnx(source: Artifact, folder: str) -> Artifact:
    return replace(source, path=source.path.parent / folder, format="onnx")


def broken(source: Artifact, folder: str, graph: bytes) -> Artifact:
    path = source.path.parent / folder
    shutil.copytree(source.path, path, ignore=shutil.ignore_patterns(GRAPH))
    (path / GRAPH).write_bytes(graph)
    return replace(source, path=path)


@pytest.fixture(scope="module")
def measured(sound: dict[str, Artifact]) -> dict[str, Any]:
    """One measurement of the sound variants and two broken ones, with what was seen from outside."""
    graph = sound["teacher_onnx"]
    odd = save_graph([helper.make_node("Neg", ["pixels"], ["logits"])], [], "pixels").SerializeToString()
    cut = broken(graph, "cut", (graph.path / GRAPH).read_bytes()[:20_000])
    artifacts = sound | {"cut": cut, "odd": broken(graph, "odd", odd)}
    starts: dict[str, cold_start.Start] = {}
    progress: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        start = cold_start.start
        patch.setattr(cold_start, "start", lambda one, *rest: starts.setdefault(one.path.name, start(one, *rest)))
        results = measure(artifacts, SETTINGS, lambda done, total: progress.append((done, total)))
    return {"results": results, "starts": starts, "progress": progress}


def save_graph(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], given: str = "x", path: Path | None = None
) -> onnx.ModelProto:
    """A graph from one float [2, 4] input to `logits`."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in (given, "logits")]
    graph = helper.make_graph(nodes, "g", tensors[:1], tensors[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if path is not None:
        onnx.save(model, str(path))
    return model


def named(name: str, values: Any, dtype: type = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)


def test_a_tied_weight_counts_once() -> None:
    module = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(7, 3), "output": torch.nn.Linear(3, 7, bias=False)})
    assert count_module(module).parameters == 2 * 7 * 3
    module["output"].weight = module["embedding"].weight
    assert count_module(module).parameters == 7 * 3


def test_masked_weights_stay_parameters_but_count_as_zeros(sound: dict[str, Artifact], tmp_path: Path) -> None:
    module = load_module(sound["teacher"])
    before = count_module(module)
    with torch.no_grad():
        module.bert.encoder.layer[0].intermediate.dense.weight[:12] = 0  # 12 of 48 neurons, 32 inputs each
        module.bert.embeddings.word_embeddings.weight[5] = 0
    assert before == Count(before.parameters, before.parameters)
    assert count_module(module) == Count(before.parameters, before.parameters - 13 * 32)
    export(module, load_tokenizer(sound["teacher"]), tmp_path)
    assert count_graph(tmp_path / GRAPH) == count_module(module)


def test_torch_float_graph_and_int8_graph_have_as_many_parameters(measured: dict[str, Any]) -> None:
    teacher, graph, int8 = (measured["results"][name] for name in ("teacher", "teacher_onnx", "int8"))
    assert teacher["parameters"] == graph["parameters"] == int8["parameters"] > 20_000
    assert graph["nonzero_parameters"] == graph["parameters"]
    # Rounding to 8 bits makes the smallest weights zero and no others.
    assert 0.9 < int8["nonzero_parameters"] / int8["parameters"] < 1


def test_a_quantized_element_is_zero_at_its_zero_point(tmp_path: Path) -> None:
    weights = [
        named("table_quantized", [[128, 127, 128], [0, 128, 129]], np.uint8), named("table_zero_point", 128, np.uint8),
        named("table_scale", 0.1), named("w", [[3, 0], [3, 4], [3, 3]], np.int8), named("w_points", [3, 4], np.int8),
        named("w_factors", [0.1, 0.2]), named("bias", [0.0, 0.5]), named("shape", [2, 3], np.int64), named("half", 0.5),
    ]  # fmt: skip
    node = helper.make_node("DequantizeLinear", ["w", "w_factors", "w_points"], ["floats"], axis=1)
    save_graph([node], weights, path=tmp_path / GRAPH)
    # Of the table 3 of 6 differ from 128; of w, by column, 0 of 3 differ from 3 and 2 of 3 from 4; of the bias 1 of 2.
    assert count_graph(tmp_path / GRAPH) == Count(6 + 6 + 2, 3 + 2 + 1)


def test_every_round_holds_every_variant_in_a_new_order() -> None:
    rounds = list(turns(list("abcdef"), 20))
    assert all(sorted(order) == list("abcdef") for order in rounds)
    assert len({tuple(order) for order in rounds}) > 15
    assert rounds == list(turns(list("abcdef"), 20))
    assert {order[0] for order in rounds} == set("abcdef")


def test_calls_alternate_warm_up_is_dropped_and_no_collection_interrupts() -> None:
    called: list[str] = []
    collecting: list[bool] = []

    def call(name: str) -> None:
        called.append(name)
        collecting.append(gc.isenabled())

    ticks: list[int] = []
    times = take_turns({name: partial(call, name) for name in "abc"}, 4, 2, lambda: ticks.append(len(called)))
    assert called == [name for order in turns(list("abc"), 6) for name in order]
    assert ticks == [3, 6, 9, 12, 15, 18]
    assert {name: (len(each.wall), len(each.cpu)) for name, each in times.items()} == dict.fromkeys("abc", (4, 4))
    assert not any(collecting)
    assert gc.isenabled()


def test_waiting_costs_wall_time_and_working_costs_both() -> None:
    def work() -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    times = take_turns({"wait": lambda: time.sleep(0.02), "work": work}, 2, 0, lambda: None)
    assert min(times["wait"].wall) >= 0.02 > 4 * min(times["wait"].cpu)
    assert min(times["work"].cpu) >= 0.02
    assert min(times["work"].wall) >= 0.019  # the two clocks are read one after the other


def test_latency_and_throughput_of_known_times() -> None:
    times = Times(wall=[0.010, 0.020, 0.030, 0.040, 0.100], cpu=[0.001, 0.002, 0.003, 0.004, 0.005])
    found = latency(times)
    assert found["latency_ms_p50"] == pytest.approx(30)
    assert found["latency_ms_p95"] == pytest.approx(88)  # 0.8 of the way from 40 to 100
    assert found["cpu_ms_p50"] == pytest.approx(3)
    assert 10 <= found["latency_ms_p50_low"] < 30 < found["latency_ms_p50_high"] <= 100
    assert throughput(times, 8) == {"throughput_per_s": pytest.approx(8 / 0.030)}


def test_one_round_has_no_interval() -> None:
    found = latency(Times([0.01], [0.01]))
    assert (found["latency_ms_p50_low"], found["latency_ms_p50_high"]) == (None, None)


def test_variants_that_do_not_fit_in_memory_are_grouped_beside_the_baselines() -> None:
    sizes = {"teacher": 4, "teacher_onnx": 4, "a": 2, "b": 2, "huge": 50, "c": 1, "d": 1}
    assert memory_groups(sizes, sum(sizes.values())) == [list(sizes)]
    groups = memory_groups(sizes, 12)
    assert groups == [["teacher", "teacher_onnx", *rest] for rest in (["a", "b"], ["huge"], ["c", "d"])]


def test_ids_suit_every_vocabulary_and_hold_no_padding() -> None:
    configs = [{"vocab_size": 9, "pad_token_id": 0}, {"vocab_size": 7, "pad_token_id": 1}, {"vocab_size": 50}]
    batch = token_batch(configs, 40, 10)
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (40, 10)
    assert set(np.unique(batch["input_ids"])) == {2, 3, 4, 5, 6}
    assert batch["attention_mask"].all()
    assert (token_batch(configs, 40, 10)["input_ids"] == batch["input_ids"]).all()


@pytest.mark.parametrize(("family", "reserved"), [("bert", 0), ("roberta", 2), ("mpnet", 2)])
def test_positions_before_the_first_token_are_not_for_tokens(
    family: str, reserved: int, tiny_artifact: Callable[..., Artifact]
) -> None:
    artifact = tiny_artifact(family)
    longest = longest_input(artifact.config)
    assert longest == MAX_TOKENS + 2 - reserved
    module = load_module(artifact)
    with torch.inference_mode():
        module(torch.from_numpy(token_batch([artifact.config], 1, longest)["input_ids"]))
        with pytest.raises((IndexError, RuntimeError)):
            module(torch.from_numpy(token_batch([artifact.config], 1, longest + 1)["input_ids"]))


def test_every_figure_of_a_sound_variant_is_plausible(measured: dict[str, Any], sound: dict[str, Artifact]) -> None:
    for name, artifact in sound.items():
        figures = measured["results"][name]
        assert "error" not in figures, figures
        assert all(figures[key] > 0 for key in TIMED), figures
        assert figures["latency_ms_p50_low"] <= figures["latency_ms_p50"] <= figures["latency_ms_p50_high"]
        assert figures["latency_ms_p50"] <= figures["latency_ms_p95"]
        assert figures["size_bytes"] == artifact.size_bytes
    assert {name: measured["results"][name]["integer_ops"] > 0 for name in sound} == {
        "teacher": False, "teacher_onnx": False, "int8": True,
    }  # fmt: skip


def test_a_length_beyond_the_positions_is_cut_for_all(measured: dict[str, Any], sound: dict[str, Artifact]) -> None:
    assert {measured["results"][name]["length"] for name in sound} == {MAX_TOKENS + 2}


def test_a_graph_that_cannot_be_read_or_run_is_an_error_of_its_own(measured: dict[str, Any]) -> None:
    cut, odd = (measured["results"][name] for name in ("cut", "odd"))
    assert set(cut) == {"size_bytes", "error"}
    assert f"cut/{GRAPH}: 20000 bytes, cannot be read: probably truncated" in cut["error"]
    assert "the graph wants ['pixels']" in odd["error"]
    assert "\n" not in cut["error"] + odd["error"]
    assert set(measured["starts"]) == {"torch", "onnx", "int8"}


def test_progress_ends_at_its_total(measured: dict[str, Any]) -> None:
    done, totals = zip(*measured["progress"], strict=True)
    assert done == tuple(range(1, totals[0] + 1))
    assert set(totals) == {(4 + 1) + (1 + 1) + 5}  # rounds and warm-up twice, one start a variant


def test_an_onnx_process_imports_neither_torch_nor_transformers(measured: dict[str, Any]) -> None:
    assert measured["starts"]["onnx"].imported == ("onnxruntime",)
    assert {"torch", "transformers"} <= set(measured["starts"]["torch"].imported)


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_uneven_heads_and_a_cut_vocabulary_answer_in_a_fresh_process_as_here(
    name: str, measured: dict[str, Any], sound: dict[str, Artifact], whole: Artifact
) -> None:
    pruned = load_module(whole)
    apply_edits(pruned, edits_from_json(sound["teacher"].edits)[:1], family_of("bert"))
    inputs = load_tokenizer(whole)(TEXT, return_tensors="pt")
    with torch.inference_mode():
        expected = pruned(**inputs).logits[0].numpy()
    assert len(load_tokenizer(sound["teacher"])) < len(load_tokenizer(whole))
    assert measured["starts"][name].answer == pytest.approx(expected, abs=1e-5)


def test_memory_is_that_of_the_fresh_process_alone(measured: dict[str, Any]) -> None:
    onnx_mib, torch_mib = (measured["results"][name]["peak_rss_mib"] for name in ("teacher_onnx", "teacher"))
    assert onnx_mib < torch_mib
    assert onnx_mib < peak_rss_mib() / 2  # this process, which started it, holds torch


def test_a_start_that_fails_quotes_the_last_line_of_the_process(sound: dict[str, Artifact], tmp_path: Path) -> None:
    shutil.copytree(sound["teacher_onnx"].path, tmp_path / "mute")
    (tmp_path / "mute" / "tokenizer.json").unlink()
    with pytest.raises(AssayError, match=r"mute: a fresh process ended with 1: .*No such file"):
        cold_start.start(replace(sound["teacher_onnx"], path=tmp_path / "mute"), 1, 8, 1)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(folder, torch threads) of each answer, from stand-ins for models; cold starts take one second."""
    seen: list[tuple[str, int]] = []

    def load(artifact: Artifact, threads: int) -> tuple[Callable[[object], None], dict[str, int]]:
        return lambda batch: seen.append((artifact.path.name, torch.get_num_threads())), {}

    monkeypatch.setattr(measuring, "_load", load)
    monkeypatch.setattr(cold_start, "start", lambda *given: cold_start.Start(1.0, 1.0, (), ()))
    return seen


def test_variants_in_several_groups_pool_their_calls(
    sound: dict[str, Artifact], called: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "MEMORY_SHARE", 0)
    settings = SETTINGS.model_copy(update={"warmup": 0})
    results = measure(dict(sound, again=sound["int8"]), settings)
    names = [name for name, _ in called]
    once = 2 + 4 + 1  # to see that both batches run, then latency and throughput rounds
    assert {name: names.count(name) for name in set(names)} == dict.fromkeys(("torch", "onnx", "int8"), 2 * once)
    assert set(names[: 3 * once]) == {"torch", "onnx", "int8"} == set(names[3 * once :])
    assert all(figures["latency_ms_p50"] > 0 and figures["cold_start_s"] == 1 for figures in results.values())


def test_threads_are_set_while_timing_and_restored(sound: dict[str, Artifact], called: list[tuple[str, int]]) -> None:
    before = torch.get_num_threads()
    measure(sound, SETTINGS.model_copy(update={"threads": before + 1}))
    assert {threads for _, threads in called} == {before + 1}
    assert torch.get_num_threads() == before
