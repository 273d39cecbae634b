"""What is loaded is what was saved: same logits, nothing new in silence, one clear line for what cannot be read."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from by_family import OF_IMAGES, OF_TEXTS, families
from edits_to_fit import fit
from onnx import TensorProto, helper
from safetensors.torch import load_file, load_model, save_file
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, BertConfig, PreTrainedModel

from assay.core.artifact import WEIGHTS, Artifact, open_finished, open_source
from assay.core.errors import InputError, NotGiven
from assay.core.manifest import Manifest, hash_folder
from assay.core.model.anatomy import FAMILIES, family_of
from assay.core.model.blocks import blocks_of
from assay.core.model.edits import (
    Edit,
    FactoriseEmbedding,
    KeepHeads,
    KeepLayers,
    KeepNeurons,
    LowRank,
    ShareLayers,
    apply_edits,
)
from assay.core.model.load import (
    find_graph,
    load_module,
    load_reader,
    load_session,
    load_source,
    load_tokenizer,
    save_module,
)

MakeArtifact = Callable[..., Artifact]
TEXTS = ["a great movie , moving and funny", "dull"]
UNEVEN = KeepHeads({0: [1, 2, 3], 2: [0]})
NEURONS = KeepNeurons({1: list(range(0, 48, 3)), 3: [7]})
EDITS: dict[str, list[Edit]] = {
    "none": [],
    "heads": [UNEVEN],
    "layers": [KeepLayers([0, 2], of=4)],
    "neurons": [NEURONS],
    "heads_layers_neurons_heads_layers": [
        UNEVEN, KeepLayers([0, 1, 3], of=4), NEURONS, KeepHeads({0: [3], 1: [0, 2]}), KeepLayers([0, 1], of=3),
    ],
    "factored": [
        LowRank({0: {"q": 5, "o": 6, "ffn_in": 7}, 2: {"v": 3, "ffn_out": 4}}), UNEVEN, NEURONS, FactoriseEmbedding(6),
        KeepLayers([0, 2, 3], of=4), LowRank({0: {"q": 2}}), KeepHeads({0: [3]}),
    ],
    "shared": [
        KeepNeurons({0: range(20), 1: range(20)}), ShareLayers([[0, 1], [2, 3]]), KeepHeads({0: [0, 2], 1: [0, 2]}),
        LowRank({2: {"v": 3}, 3: {"v": 3}}), KeepLayers([1, 2, 3], of=4),
    ],
}  # fmt: skip


STACKED = "heads_layers_neurons_heads_layers"


def save(model: PreTrainedModel, source: Artifact, edits: list[Edit], out: Path) -> Artifact:
    """A finished folder, as a step would leave it."""
    save_module(model, out, load_reader(source))
    manifest = Manifest(
        key="k", step="prune", settings={}, parent=source.key, format="torch", task=source.task, family=source.family,
        seed=0, edits=[edit.to_json() for edit in edits], files=hash_folder(out),
    )  # fmt: skip
    manifest.write(out)
    return open_finished(out)


@torch.no_grad()
def logits(model: PreTrainedModel, artifact: Artifact) -> torch.Tensor:
    """[2, labels] of a batch whose second row is padded, or of two images."""
    if artifact.family in OF_IMAGES:
        return model(pixel_values=torch.linspace(-1, 1, 2 * 3 * 32 * 32).sin().reshape(2, 3, 32, 32)).logits
    return model(**load_tokenizer(artifact)(TEXTS, padding=True, return_tensors="pt")).logits


def by_default(family: str, edits: str) -> bool:
    """Everything on a BERT, the most of it in one chain on every family, factors and groups where they are held in
    other ways."""
    return family == "bert" or edits == STACKED or (edits in ("factored", "shared") and family in ("gpt2", "t5", "vit"))


@pytest.mark.parametrize(
    ("family", "edits"),
    [
        pytest.param(family, edits, id=f"{family}-{name}", marks=[] if by_default(family, name) else [pytest.mark.slow])
        for family in sorted(FAMILIES)
        for name, edits in EDITS.items()
    ],
)
def test_logits_before_saving_equal_those_after_loading(
    family: str, edits: list[Edit], tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family)
    model = load_module(source)
    edits = fit(edits, family_of(family))
    apply_edits(model, edits, family_of(family))
    before = logits(model, source)
    saved = save(model, source, edits, tmp_path / "saved")
    loaded = load_module(saved)
    again = save(loaded, saved, edits, tmp_path / "again")
    torch.testing.assert_close(logits(loaded, saved), before, atol=1e-5, rtol=0)
    assert (again.path / WEIGHTS).read_bytes() == (saved.path / WEIGHTS).read_bytes()
    assert again.config == saved.config


def test_a_loaded_model_is_edited_by_original_numbers(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("mpnet")
    first: list[Edit] = [KeepHeads({2: [1, 3]}), KeepLayers([1, 2], of=4)]
    second: list[Edit] = [KeepHeads({2: [3]})]
    live, family = load_module(source), FAMILIES["mpnet"]
    apply_edits(live, first, family)
    reloaded = load_module(save(live, source, first, tmp_path / "first"))
    for model in (live, reloaded):
        apply_edits(model, second, family)
    torch.testing.assert_close(logits(reloaded, source), logits(live, source), atol=1e-6, rtol=0)


def test_a_model_that_only_lost_layers_is_an_ordinary_one(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source, edits = tiny_artifact("distilbert"), EDITS["layers"]
    model = load_module(source)
    apply_edits(model, edits, FAMILIES["distilbert"])
    saved = save(model, source, edits, tmp_path / "saved")
    plain, info = AutoModelForSequenceClassification.from_pretrained(saved.path, output_loading_info=True)
    assert saved.config["n_layers"] == 2
    assert not any(info.values())
    torch.testing.assert_close(logits(plain.eval(), saved), logits(model, source), atol=1e-5, rtol=0)


@pytest.mark.parametrize("edits", [[], [UNEVEN]], ids=["plain", "edited"])
def test_the_saved_dtype_is_kept(edits: list[Edit], tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert")
    model = load_module(source).to(torch.bfloat16)
    apply_edits(model, edits, FAMILIES["bert"])
    loaded = load_module(save(model, source, edits, tmp_path / "saved"))
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("edits", [[], [UNEVEN]], ids=["plain", "edited"])
def test_loading_leaves_the_random_state_alone(edits: list[Edit], tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert")
    model = load_module(source)
    apply_edits(model, edits, FAMILIES["bert"])
    saved = save(model, source, edits, tmp_path / "saved")
    state = torch.get_rng_state()
    load_module(saved)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("family", families("albert", "bart", "bert", "gpt2", "llama"))
def test_attention_kernels_agree(family: str, tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact(family)
    eager, fast = load_module(source), load_module(source, attn_implementation="sdpa")
    torch.testing.assert_close(logits(fast, source), logits(eager, source), atol=1e-5, rtol=0)


def test_tied_tensors_are_stored_once_and_stay_tied(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tiny_artifact("bert"))
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    model = AutoModelForMaskedLM.from_config(config)
    apply_edits(model, [KeepHeads({0: [1]})], FAMILIES["bert"])
    save_module(model, tmp_path, tokenizer)
    stored = load_file(tmp_path / WEIGHTS)
    assert sum(tensor.shape == (len(tokenizer), 32) for tensor in stored.values()) == 1
    reloaded = AutoModelForMaskedLM.from_config(config)
    apply_edits(reloaded, [KeepHeads({0: [1]})], FAMILIES["bert"])
    load_model(reloaded, tmp_path / WEIGHTS)
    assert reloaded.get_output_embeddings().weight is reloaded.get_input_embeddings().weight
    assert torch.equal(reloaded.get_output_embeddings().weight, model.get_input_embeddings().weight)


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the stored tensors in place."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


@pytest.mark.parametrize("edits", [[], [UNEVEN]], ids=["plain", "edited"])
def test_a_missing_tensor_is_named_not_initialised(
    edits: list[Edit], tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact("bert")
    model = load_module(source)
    apply_edits(model, edits, FAMILIES["bert"])
    saved = save(model, source, edits, tmp_path / "saved")
    rewrite(saved.path, lambda tensors: tensors.pop("bert.encoder.layer.1.output.dense.bias"))
    with pytest.raises(InputError, match=r"(?s)model\.safetensors: .*bert\.encoder\.layer\.1\.output\.dense\.bias"):
        load_module(saved)


def test_edits_that_do_not_fit_the_weights_are_refused(tiny_artifact: MakeArtifact) -> None:
    source = replace(tiny_artifact("bert"), edits=[UNEVEN.to_json()])
    with pytest.raises(InputError, match=r"(?s)weights do not fit config\.json and the edits.*size mismatch"):
        load_module(source)


@pytest.mark.parametrize("opener", [load_module, lambda source: load_source(source, ("neg", "pos"), 0)])
def test_a_config_with_fewer_layers_than_the_weights_is_refused(
    opener: Callable[[Artifact], object], tiny_folder: Callable[..., Path]
) -> None:
    folder = tiny_folder("bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(InputError, match=r"no place for: bert\.encoder\.layer\.3\."):
        opener(open_source(folder, "text-classification"))


def test_an_onnx_artifact_has_no_torch_weights(tiny_artifact: MakeArtifact) -> None:
    with pytest.raises(NotGiven, match="onnx artifact holds no torch weights"):
        load_module(replace(tiny_artifact("bert"), format="onnx"))


class TestSource:
    """Pretrained folders that Assay did not write."""

    @pytest.mark.parametrize("family", families("bart", "bert", "distilbert", "gpt2", "roberta"))
    def test_a_headless_encoder_gets_a_seeded_head(self, family: str, tiny_artifact: MakeArtifact) -> None:
        source = tiny_artifact(family, headless=True)
        one, same, other = (load_source(source, ("x", "y", "z"), seed) for seed in (1, 1, 2))
        weight = f"{FAMILIES[family].classifier}.weight"
        assert torch.equal(one.get_parameter(weight), same.get_parameter(weight))
        assert not torch.equal(one.get_parameter(weight), other.get_parameter(weight))
        assert one.config.id2label == {0: "x", 1: "y", 2: "z"}
        assert one.config.problem_type == "single_label_classification"
        stored = load_file(source.path / WEIGHTS)
        path = blocks_of(one, FAMILIES[family])[-1].path
        name = path.removeprefix(f"{FAMILIES[family].base}.")
        layer = dict(one.get_submodule(path).named_parameters())
        assert all(torch.equal(value, stored[f"{name}.{part}"]) for part, value in layer.items())

    def test_a_head_for_the_same_classes_is_kept_in_the_wanted_order(self, tiny_artifact: MakeArtifact) -> None:
        source = tiny_artifact("roberta", labels=("contradiction", "neutral", "entailment"))
        plain = logits(load_module(source), source)
        model = load_source(source, ("entailment", "neutral", "contradiction"), seed=5)
        torch.testing.assert_close(logits(model, source), plain.flip(1), atol=1e-5, rtol=0)
        assert model.config.id2label == {0: "entailment", 1: "neutral", 2: "contradiction"}

    def test_a_head_for_other_classes_of_equal_number_is_new(
        self, tiny_artifact: MakeArtifact, caplog: pytest.LogCaptureFixture
    ) -> None:
        source = tiny_artifact("bert", labels=("neg", "pos"))
        with caplog.at_level(logging.WARNING):
            model = load_source(source, ("spam", "ham"), seed=0)
        stored = load_file(source.path / WEIGHTS)
        assert not torch.equal(model.get_parameter("classifier.weight"), stored["classifier.weight"])
        assert torch.equal(model.get_parameter("bert.pooler.dense.weight"), stored["bert.pooler.dense.weight"])
        assert "classification head for spam, ham is new" in caplog.text

    def test_another_number_of_classes_gets_a_new_head(self, tiny_artifact: MakeArtifact) -> None:
        model = load_source(tiny_artifact("electra", labels=("a", "b")), ("a", "b", "c"), seed=0)
        assert model.get_parameter("classifier.out_proj.weight").shape == (3, 32)

    def test_regression_has_one_output(self, tiny_artifact: MakeArtifact) -> None:
        source = tiny_artifact("bert", headless=True, task="text-regression")
        model = load_source(source, (), seed=0)
        assert logits(model, source).shape == (2, 1)
        assert model.config.problem_type == "regression"

    def test_half_precision_is_widened(self, tiny_artifact: MakeArtifact) -> None:
        source = tiny_artifact("bert")
        rewrite(source.path, lambda tensors: tensors.update({n: t.half() for n, t in tensors.items()}))
        assert load_source(source, ("neg", "pos"), 0).dtype == torch.float32

    def test_only_the_head_may_be_missing(self, tiny_artifact: MakeArtifact) -> None:
        source = tiny_artifact("bert", headless=True)
        rewrite(source.path, lambda tensors: tensors.pop("encoder.layer.2.attention.self.key.weight"))
        with pytest.raises(
            InputError, match=r"safetensors: .*missing.*: bert\.encoder\.layer\.2\.attention\.self\.key\.weight$"
        ):
            load_source(source, ("a", "b"), 0)

    def test_what_was_saved_is_loaded(self, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
        source = tiny_artifact("xlm-roberta", headless=True)
        model = load_source(source, ("x", "y", "z"), seed=1)
        saved = save(model, source, [], tmp_path / "saved")
        assert saved.labels == ("x", "y", "z")
        torch.testing.assert_close(logits(load_module(saved), saved), logits(model, source), atol=1e-5, rtol=0)


class TestTokenizer:
    """The folder's own tokenizer, made safe."""

    @pytest.mark.parametrize("family", sorted(set(OF_TEXTS) - {"t5"}))  # which has no end of positions
    def test_the_longest_text_fits_the_positions(self, family: str, tiny_artifact: MakeArtifact) -> None:
        source = tiny_artifact(family)
        path = source.path / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": int(1e30)}))
        tokenizer = load_tokenizer(source)
        inputs = tokenizer(["a dull film " * 100], truncation=True, return_tensors="pt")
        assert inputs["input_ids"].shape[1] == tokenizer.model_max_length
        assert torch.isfinite(load_module(source)(**inputs).logits).all()

    def test_a_missing_pad_token_is_chosen_once_and_saved(self, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
        source = tiny_artifact("bert")
        for name, gone in (("tokenizer_config.json", "pad_token"), ("special_tokens_map.json", "pad_token")):
            if (source.path / name).is_file():
                data = json.loads((source.path / name).read_text())
                data.pop(gone, None)
                (source.path / name).write_text(json.dumps(data))
        model = load_module(source)
        model.config.pad_token_id = None
        saved = save(model, source, [], tmp_path / "saved")
        tokenizer = load_tokenizer(saved)
        assert tokenizer.pad_token == "[SEP]"
        assert saved.config["pad_token_id"] == tokenizer.pad_token_id

    def test_a_folder_without_tokenizer_is_refused(self, tiny_artifact: MakeArtifact) -> None:
        source = tiny_artifact("bert")
        for path in source.path.glob("*token*"):
            path.unlink()
        with pytest.raises(InputError, match=re.escape(f"{source.path}: no usable tokenizer")):
            load_tokenizer(source)


def write_graph(path: Path) -> None:
    """A graph of one matrix product, some kilobytes long."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [32, 32], np.ones(1024, dtype=np.float32))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["logits"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 32])],
        [weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def graph_artifact(folder: Path) -> Artifact:
    """An ONNX artifact of that graph."""
    write_graph(folder / "model.onnx")
    return Artifact(folder, "k", "onnx", "text-classification", "bert")


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4" * 64 + b"\nsize 1234\n"
DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (lambda content: content[: len(content) * 6 // 10], "probably truncated"),
    "empty": (lambda content: b"", "the file is empty"),
    "pointer": (lambda content: POINTER, "Git LFS pointer"),
}


class TestDamagedFiles:
    """One line with path, size and likely cause, and the exit code of bad input."""

    @pytest.mark.parametrize(("damage", "cause"), DAMAGE.values(), ids=DAMAGE)
    @pytest.mark.parametrize("opener", ["module", "edited", "source", "session"])
    def test_damage_is_told_in_one_line(
        self, opener: str, damage: Callable[[bytes], bytes], cause: str, tiny_artifact: MakeArtifact, tmp_path: Path
    ) -> None:
        artifact = graph_artifact(tmp_path) if opener == "session" else tiny_artifact("bert")
        path = artifact.path / ("model.onnx" if opener == "session" else WEIGHTS)
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(InputError) as caught:
            open_as(opener, artifact)
        message = str(caught.value)
        assert message.startswith(f"{path}: {path.stat().st_size} bytes, cannot be read: ")
        assert cause in message
        assert "\n" not in message
        assert caught.value.exit_code == 2

    def test_a_missing_file_is_named(self, tiny_artifact: MakeArtifact) -> None:
        artifact = tiny_artifact("bert")
        (artifact.path / WEIGHTS).unlink()
        with pytest.raises(InputError, match=r"model\.safetensors: no such file"):
            load_module(artifact)

    def test_a_whole_graph_that_the_runtime_refuses_is_not_called_truncated(self, tmp_path: Path) -> None:
        artifact = graph_artifact(tmp_path)
        model = onnx.load(tmp_path / "model.onnx")
        model.graph.node[0].op_type = "NoSuchOp"
        onnx.save(model, tmp_path / "model.onnx")
        with pytest.raises(InputError, match=r"model\.onnx: onnxruntime cannot load it: .*NoSuchOp") as caught:
            load_session(artifact)
        assert "truncated" not in str(caught.value)


def open_as(opener: str, artifact: Artifact) -> object:
    """Open by the named way."""
    if opener == "session":
        return load_session(artifact)
    if opener == "source":
        return load_source(artifact, ("neg", "pos"), 0)
    return load_module(replace(artifact, edits=[UNEVEN.to_json()] if opener == "edited" else []))


class TestGraph:
    """Which file of a folder is meant, and how it is run."""

    def test_a_graph_runs_with_the_threads_asked_for(self, tmp_path: Path) -> None:
        session = load_session(graph_artifact(tmp_path), threads=1)
        (logits,) = session.run(["logits"], {"x": np.eye(32, dtype=np.float32)[:2]})
        np.testing.assert_allclose(logits, np.ones((2, 32)))
        options = session.get_session_options()
        assert options.intra_op_num_threads == 1
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"

    def test_two_graphs_are_ambiguous_until_one_is_named(self, tmp_path: Path) -> None:
        for name in ("model.onnx", "model_int8.onnx"):
            write_graph(tmp_path / name)
        artifact = Artifact(tmp_path, "k", "onnx", "text-classification", "bert")
        with pytest.raises(InputError, match=r"which graph\? found model\.onnx \(\d+ bytes\), model_int8\.onnx"):
            load_session(artifact)
        assert find_graph(tmp_path / "model_int8.onnx") == tmp_path / "model_int8.onnx"

    def test_the_only_graph_is_found_whatever_its_name(self, tmp_path: Path) -> None:
        write_graph(tmp_path / "encoder.onnx")
        assert find_graph(tmp_path) == tmp_path / "encoder.onnx"

    def test_a_folder_without_graph_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"no \.onnx file"):
            find_graph(tmp_path)
