"""Language models as predictors: torch = graph = transformers itself, whatever the batches; and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from by_family import case
from safetensors.torch import load_file, save_file
from tiny_jobs import carry_out, job_data

from assay.core.artifact import WEIGHTS, Artifact, LanguageTask, open_source
from assay.core.errors import InputError
from assay.core.model.anatomy import FAMILIES
from assay.core.model.language import LanguageModel, TorchLanguageModel
from assay.core.model.load import builder_for, load_source
from assay.core.model.masks import mask_heads
from assay.core.model.predict import WhiteBox, open_predictor
from assay.run.prepare import check_task

MakeArtifact = Callable[..., Artifact]
TEXTS = ["the film was", "a dull and slow story about a man and a woman", "great"]
TASKS: dict[str, LanguageTask] = {
    name: family.language_task for name, family in FAMILIES.items() if family.language_task is not None
}
CASES = [case(name, task, slow=name not in ("bert", "gpt2")) for name, task in sorted(TASKS.items())]
EDITS: list[tuple[str, dict[str, Any]]] = [
    ("prune_layers", {"layers": [0, 2, 3]}),
    ("prune_heads", {"fraction": 0.25}),
    ("prune_ffn", {"fraction": 0.25}),
    ("cut_vocab", {}),
]


def asked(model: LanguageModel, batch_size: int | None = None) -> list[np.ndarray]:
    """Logits at every place that is asked about the texts."""
    questions = [model.asker.about(ids) for ids in model.encoder.ids(TEXTS)]
    return model.ask(questions, lambda row, logits: logits.copy(), batch_size)


def language(artifact: Artifact) -> LanguageModel:
    return cast(LanguageModel, open_predictor(artifact, 32))


@pytest.mark.parametrize(("family", "task"), CASES)
def test_answers_are_those_of_transformers_one_text_at_a_time(
    family: str, task: LanguageTask, tiny_artifact: MakeArtifact
) -> None:
    source = tiny_artifact(family, task=task)
    model = language(source)
    module = builder_for(task).from_pretrained(source.path).eval()
    for row, ids in enumerate(model.encoder.ids(TEXTS)):
        question = model.asker.about(ids)
        with torch.inference_mode():
            expected = module(torch.tensor([question.ids])).logits[0, question.places].numpy()
        for found in (asked(model)[row], asked(model, batch_size=3)[row]):
            assert found == pytest.approx(expected, abs=1e-5)
    assert np.ptp(np.concatenate(asked(model))) > 0.1


@pytest.mark.parametrize(("family", "task"), [case(*each.values, slow=each.values[0] != "bert") for each in CASES])
def test_edited_saved_and_exported_it_answers_as_before(
    family: str, task: LanguageTask, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source = tiny_artifact(family, task=task)
    data = job_data(task=task, labels=())
    edits = EDITS[1:] if FAMILIES[family].shares_layers else EDITS
    pruned = carry_out(tmp_path, source, edits, data)
    graph = carry_out(tmp_path, pruned, [("export_onnx", {})], data)  # its gate holds logits to 1e-4
    ours, theirs = language(pruned), language(graph)
    assert isinstance(ours, WhiteBox)
    assert ours.layers == ((0, 1, 2, 3) if FAMILIES[family].shares_layers else (0, 2, 3))
    assert len(ours.encoder.tokenizer) < len(language(source).encoder.tokenizer)
    for one, other in zip(asked(ours), asked(theirs), strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_states_are_those_of_the_layers_and_a_masked_head_changes_answers(tiny_artifact: MakeArtifact) -> None:
    model = cast(TorchLanguageModel, language(tiny_artifact("bert", task="fill-mask", layers=2)))
    (batch,) = model.states(TEXTS[:1], attentions=True)
    assert [tuple(states.shape) for states in batch.hidden] == [(1, 5, 32)] * 3
    assert len(batch.attentions) == 2
    assert batch.logits.shape == (1, 0)
    whole = np.concatenate(asked(model))
    with mask_heads(model.module, FAMILIES["bert"], [torch.tensor([0.0, 1, 1, 1]), torch.ones(4)]):
        assert np.abs(np.concatenate(asked(model)) - whole).max() > 1e-3


def test_a_predictor_of_texts_answers_one_question_each(tiny_artifact: MakeArtifact) -> None:
    masked = language(tiny_artifact("bert", task="fill-mask"))
    logits = masked.logits(TEXTS)
    assert logits.shape == (3, len(masked.encoder.tokenizer))
    first = [asked(masked)[row] for row, ids in enumerate(masked.encoder.ids(TEXTS)) if len(ids) == 3]
    assert logits[2] == pytest.approx(first[0][0], abs=1e-5)  # one token in all, so the same question
    assert masked.logits([""]).shape == (1, len(masked.encoder.tokenizer))  # a blank text too
    causal = language(tiny_artifact("gpt2", task="text-generation"))
    assert causal.logits([*TEXTS, ""]).shape == (4, len(causal.encoder.tokenizer))


def test_a_model_without_the_head_is_refused(tiny_artifact: MakeArtifact) -> None:
    with pytest.raises(InputError, match=r"not a whole language model for fill-mask, it lacks .*cls\.predictions"):
        load_source(tiny_artifact("bert", task="fill-mask", headless=True), (), seed=1)


def test_a_tied_decoder_need_not_be_in_the_file(tiny_artifact: MakeArtifact) -> None:
    source = tiny_artifact("bert", task="fill-mask")
    expected = asked(language(source))
    weights = load_file(source.path / WEIGHTS)
    tied = {name: value for name, value in weights.items() if not name.startswith("cls.predictions.decoder.")}
    save_file(tied, source.path / WEIGHTS, metadata={"format": "pt"})
    for one, other in zip(asked(language(open_source(source.path, "fill-mask"))), expected, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize(
    ("family", "task", "advice"),
    [
        ("bert", "text-generation", "use task: fill-mask"),
        ("gpt2", "fill-mask", "use task: text-generation"),
        ("t5", "fill-mask", "models of an encoder and a decoder have no language task here"),
    ],
)
def test_a_task_that_the_family_does_not_have_is_one_clear_line(
    family: str, task: LanguageTask, advice: str, tiny_artifact: MakeArtifact
) -> None:
    source = tiny_artifact(family)
    with pytest.raises(InputError, match=f"task: {task} does not fit a {family} model .*; {advice}"):
        check_task(task, source, source.path / "config.json")
