"""Texts in, logits out, in the order given, whatever the batch: the same for torch and ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_jobs import BLANK, planted_rows
from tiny_models import MAX_TOKENS, write_tiny
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from assay.core.artifact import Artifact, open_source
from assay.core.errors import AssayError, NotGiven
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import KeepHeads, KeepLayers, apply_edits
from assay.core.model.encoder import Encoder
from assay.core.model.export import export
from assay.core.model.graph import as_onnx
from assay.core.model.load import load_module, load_tokenizer, save_module
from assay.core.model.predict import OnnxPredictor, Predictor, TorchPredictor, WhiteBox, open_predictor, run_graph

MakeArtifact = Callable[..., Artifact]
TEXTS = planted_rows(11).texts  # 5 to 13 words in no order of length


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """One tiny BERT in torch and in ONNX."""
    folder = tmp_path_factory.mktemp("forms")
    write_tiny(folder / "torch", layers=2)
    source = open_source(folder / "torch", "text-classification")
    export(load_module(source), load_tokenizer(source), folder / "onnx")
    return {"torch": source, "onnx": as_onnx(source, folder / "onnx")}


@pytest.fixture(params=["torch", "onnx"])
def predictor(request: pytest.FixtureRequest, forms: dict[str, Artifact]) -> Predictor:
    return open_predictor(forms[request.param], 32)


def plain_logits(artifact: Artifact, text: str) -> np.ndarray:
    """What transformers itself gives for one text."""
    module = AutoModelForSequenceClassification.from_pretrained(artifact.path).eval()
    tokens = AutoTokenizer.from_pretrained(artifact.path)(text, return_tensors="pt")
    with torch.inference_mode():
        return module(**tokens).logits.numpy()[0]


def test_logits_are_those_of_transformers_in_the_order_given(predictor: Predictor, forms: dict[str, Artifact]) -> None:
    expected = np.stack([plain_logits(forms["torch"], text) for text in TEXTS])
    assert np.ptp(expected, axis=0).min() > 0.01  # rows differ, so a wrong order would show
    for batch_size in (1, 4, 32):
        found = predictor.logits(TEXTS, batch_size)
        assert found.dtype == np.float32
        assert found == pytest.approx(expected, abs=1e-4)


def test_padding_changes_nothing(predictor: Predictor) -> None:
    assert predictor.logits(TEXTS, 4, pad_to=32) == pytest.approx(predictor.logits(TEXTS), abs=1e-4)


def test_blank_rows_get_a_prediction_each(predictor: Predictor) -> None:
    texts = [BLANK[0], TEXTS[0], *BLANK[1:]]
    found = predictor.logits(texts)
    assert found.shape == (6, 2)
    assert np.isfinite(found).all()
    assert found[1] == pytest.approx(predictor.logits([TEXTS[0]])[0], abs=1e-4)
    for row, text in enumerate(texts):
        assert found[row] == pytest.approx(predictor.logits([text])[0], abs=1e-4)


def test_no_texts_give_no_rows(predictor: Predictor) -> None:
    assert predictor.logits([]).shape == (0, 2)


def test_long_texts_are_cut_to_what_is_asked_and_what_the_model_has(forms: dict[str, Artifact]) -> None:
    words = "great film " * 300
    for artifact in forms.values():
        cut = open_predictor(artifact, 8)
        assert (cut.logits([words]) == cut.logits([words + "awful"])).all()
        assert max(map(len, open_predictor(artifact, 10_000).encoder.ids([words]))) == MAX_TOKENS
        assert np.isfinite(open_predictor(artifact, 10_000).logits([words], pad_to=10_000)).all()


@pytest.mark.parametrize("family", ["roberta", "mpnet"])
def test_positions_that_start_late_leave_room(family: str, tiny_artifact: MakeArtifact) -> None:
    """These families count positions from the padding index on; the longest text must still fit."""
    assert np.isfinite(TorchPredictor(tiny_artifact(family, layers=1), 10_000).logits(["great film " * 300])).all()


def test_batches_go_from_short_to_long_and_hold_every_row_once(forms: dict[str, Artifact]) -> None:
    encoder = Encoder(load_tokenizer(forms["torch"]), 32)
    batches = list(encoder.batches(TEXTS, 4))
    assert sorted(row for rows, _ in batches for row in rows) == list(range(len(TEXTS)))
    widths = [inputs["input_ids"].shape[1] for _, inputs in batches]
    assert widths == sorted(widths)
    assert {array.dtype for _, inputs in batches for array in inputs.values()} == {np.dtype(np.int64)}


@pytest.mark.parametrize(("pad_to", "width"), [(None, 5), (3, 5), (9, 9), (100, 32)])
def test_rows_are_padded_to_the_longest_or_to_what_is_asked(
    pad_to: int | None, width: int, forms: dict[str, Artifact]
) -> None:
    inputs = Encoder(load_tokenizer(forms["torch"]), 32).pad([[2, 7, 3], [2, 7, 8, 9, 3]], pad_to)
    assert inputs["input_ids"].shape == (2, width)
    assert inputs["attention_mask"].sum(axis=1).tolist() == [3, 5]


def test_padding_goes_to_the_side_of_the_tokenizer(forms: dict[str, Artifact]) -> None:
    tokenizer = load_tokenizer(forms["torch"])
    tokenizer.padding_side = "left"
    inputs = Encoder(tokenizer, 32).pad([[2, 7, 3], [2, 7, 8, 9, 3]])
    assert inputs["attention_mask"].tolist() == [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
    assert inputs["input_ids"][0].tolist() == [tokenizer.pad_token_id] * 2 + [2, 7, 3]


def test_graph_inputs_come_from_the_graph(forms: dict[str, Artifact]) -> None:
    """A BERT graph has segment ids: zeros where the tokenizer gives none. Nothing else is made up."""
    session = OnnxPredictor(forms["onnx"], 32).session
    inputs = {"input_ids": np.array([[2, 7, 3]]), "attention_mask": np.array([[1, 1, 1]])}
    zeros = {"token_type_ids": np.zeros((1, 3), np.int64)}
    assert (run_graph(session, inputs) == run_graph(session, inputs | zeros)).all()
    ones = {"token_type_ids": np.ones((1, 3), np.int64)}
    assert np.abs(run_graph(session, inputs) - run_graph(session, inputs | ones)).max() > 1e-4
    with pytest.raises(NotGiven, match=r"the graph wants \['attention_mask'\], the tokenizer gives \['input_ids'\]"):
        run_graph(session, {"input_ids": np.array([[2, 7, 3]])})


def test_only_torch_is_a_white_box(forms: dict[str, Artifact]) -> None:
    assert isinstance(open_predictor(forms["torch"], 32), WhiteBox)
    assert not isinstance(open_predictor(forms["onnx"], 32), WhiteBox)


def test_states_hold_every_row_with_its_own_logits(forms: dict[str, Artifact]) -> None:
    predictor = TorchPredictor(forms["torch"], 32)
    expected, seen = predictor.logits(TEXTS), []
    for batch in predictor.states(TEXTS, batch_size=4, attentions=True):
        rows, tokens = batch.input_ids.shape
        assert len(batch.hidden) == 3  # embeddings and two layers
        assert batch.hidden[-1].shape == (rows, tokens, 32)
        assert [layer.shape for layer in batch.attentions] == [(rows, 4, tokens, tokens)] * 2
        assert (batch.special.sum(1) == 2).all()  # [CLS] and [SEP], not the padding
        assert batch.logits.numpy() == pytest.approx(expected[batch.rows], abs=1e-4)
        assert not batch.logits.requires_grad
        seen += batch.rows
    assert sorted(seen) == list(range(len(TEXTS)))


def test_layers_and_heads_keep_their_original_numbers(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact(layers=3)
    module, edits = load_module(source), [KeepLayers([0, 2], of=3), KeepHeads({2: [1, 3]})]
    apply_edits(module, edits, FAMILIES[source.family])
    save_module(module, tmp_path / "cut", load_tokenizer(source))
    cut = replace(source, path=tmp_path / "cut", edits=[edit.to_json() for edit in edits])
    predictor = TorchPredictor(cut, 32)
    assert predictor.layers == (0, 2)
    assert predictor.heads == ((0, 1, 2, 3), (1, 3))
    (batch,) = predictor.states(["great film"], attentions=True)
    assert [layer.shape[1] for layer in batch.attentions] == [4, 2]


def test_missing_attention_weights_are_an_error(forms: dict[str, Artifact]) -> None:
    class Silent(torch.nn.Module):
        """Answers without the attentions it was asked for, as a fused kernel does."""

        def __init__(self, module: torch.nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, output_attentions: bool = False, **inputs: torch.Tensor) -> object:
            return self.module(**inputs)

    predictor = TorchPredictor(forms["torch"], 32)
    predictor.module = Silent(predictor.module)
    with pytest.raises(AssayError, match="returned no attention weights; load it with attn_implementation='eager'"):
        list(predictor.states(TEXTS, attentions=True))


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_a_text_that_spells_the_end_token_has_company_in_a_batch(family: str, tmp_path: Path) -> None:
    write_tiny(tmp_path, family)
    predictor = open_predictor(open_source(tmp_path, "text-classification"), 32)
    texts = ["a fine film </s> the end </s>", "a fine film", "</s>", "a bad film </s></s>"]
    together = predictor.logits(texts, 4)
    alone = [predictor.logits([text])[0] for text in texts]
    assert together == pytest.approx(np.array(alone), abs=1e-4)
    assert not np.allclose(together[0], together[1], atol=1e-4)
