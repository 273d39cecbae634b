"""What stays is what is largest on the rows; the model is as small as the facts say, loads, trains and exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from by_family import case
from planted_width import plant_states
from pydantic import ValidationError
from tiny_jobs import carry_out, job_data, step_of
from tiny_models import write_tiny

from assay.core.artifact import Artifact, open_source
from assay.core.errors import SettingError
from assay.core.manifest import Manifest
from assay.core.measure.weights_count import count_module
from assay.core.model.anatomy import FAMILIES
from assay.core.model.edits import layout_of
from assay.core.model.load import load_module, load_tokenizer, save_module
from assay.core.model.narrow import change_basis
from assay.core.model.predict import open_predictor
from assay.core.model.residual import stream_of
from compress.width.basis import leading_basis, share_kept
from compress.width.moments import state_moments

MakeArtifact = Callable[..., Artifact]
TEXTS = job_data().test.texts


def facts(artifact: Artifact) -> dict[str, Any]:
    return Manifest.read(artifact.path).facts


def error(artifact: Artifact, source: Artifact) -> float:
    """Largest difference of a logit."""
    found, expected = (open_predictor(each, 32).logits(TEXTS) for each in (artifact, source))
    return float(abs(found - expected).max())


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("bert") / "model"
    write_tiny(folder, layers=2)
    return open_source(folder, "text-classification")


def planted(source: Artifact, folder: Path, width: int) -> Artifact:
    """The same model with states that live in `width` directions."""
    module = load_module(source)
    plant_states(module, FAMILIES[source.family], width)
    save_module(module, folder, load_tokenizer(source))
    return open_source(folder, source.task)


class TestBasis:
    """Against what is known of principal components."""

    def test_no_basis_of_the_width_keeps_more(self) -> None:
        generator = torch.Generator().manual_seed(0)
        rows = torch.randn(200, 8, generator=generator).double() * torch.tensor([9, 5, 3, 1, 1, 1, 0.5, 0.1])
        moment = rows.T @ rows
        basis = leading_basis([moment], 3)
        torch.testing.assert_close(basis.T @ basis, torch.eye(3, dtype=torch.float64))
        values = torch.linalg.eigvalsh(moment).flip(0)
        assert share_kept(moment, basis) == pytest.approx(float(values[:3].sum() / values.sum()))
        for _ in range(5):
            other = torch.linalg.qr(torch.randn(8, 3, generator=generator, dtype=torch.float64)).Q
            assert share_kept(moment, other) < share_kept(moment, basis)

    def test_the_mean_comes_first_whatever_the_states_are(self) -> None:
        mean = torch.full((4,), 0.5, dtype=torch.float64)
        basis = leading_basis([torch.diag(torch.tensor([4.0, 3.0, 0.0, 0.0], dtype=torch.float64))], 4, mean)
        torch.testing.assert_close(basis[:, 0], mean)
        torch.testing.assert_close(basis.T @ basis, torch.eye(4, dtype=torch.float64))


def test_moments_are_those_of_real_tokens(bert: Artifact) -> None:
    """Recomputed from the hidden states of two rows; what stands where there is padding counts for nothing."""
    module = load_module(bert)
    stream = stream_of(module, FAMILIES["bert"])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    batch = {"input_ids": torch.tensor([[2, 40, 41, 3], [2, 3, 0, 0]]), "attention_mask": mask}
    seen = state_moments(module, stream, [batch])
    states = module(**batch, output_hidden_states=True).hidden_states
    assert [each.places for each in seen] == [(), (0,), (0,), (1,), (1,)]
    for given, found in zip(states, (seen[0], seen[2], seen[4]), strict=True):
        rows = given[mask.bool()].double()
        torch.testing.assert_close(found.given, (rows.T @ rows).detach())
    for each in seen:
        assert float(each.read.trace()) == pytest.approx(6)  # tokens of length 1
        assert float(stream.mean @ each.read @ stream.mean) == pytest.approx(0, abs=1e-9)
    batch["input_ids"] = torch.tensor([[2, 40, 41, 3], [2, 3, 50, 60]])
    again = state_moments(module, stream, [batch])
    torch.testing.assert_close(again[4].given, seen[4].given)


@pytest.mark.slow
def test_directions_that_hold_nothing_go_first(bert: Artifact, tmp_path: Path) -> None:
    """Saved, opened and written as a graph. Controls: narrower than the states, and a random basis of the width."""
    source = planted(bert, tmp_path / "planted", 16)
    made = carry_out(tmp_path, source, [("reduce_width", {"width": 16, "rows": 16})])
    assert error(made, source) < 1e-5
    assert list(facts(made)["variance_kept"].values()) == pytest.approx([1.0, 1.0])
    graph = carry_out(tmp_path, made, [("export_onnx", {"tolerance": 1e-4})])
    assert facts(graph)["parity"]["max_abs"] < 1e-4
    assert error(graph, source) < 1e-4
    narrower = carry_out(tmp_path, source, [("reduce_width", {"width": 8, "rows": 16})])
    assert error(narrower, source) > 1e-2
    assert all(share < 0.99 for share in facts(narrower)["variance_kept"].values())


@pytest.mark.parametrize("family", ["bert", case("gpt2", slow=True), case("llama", slow=True)])
def test_principal_components_lose_less_than_a_random_basis(
    family: str, bert: Artifact, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    """On states with a long tail of smaller directions."""
    source = bert if family == "bert" else tiny_artifact(family, layers=2)
    made = carry_out(tmp_path, source, [("reduce_width", {"width": 24, "rows": 48})])
    module = load_module(source)
    mean = stream_of(module, FAMILIES[family]).mean
    drawn = torch.randn(32, 24, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    if mean is not None:
        drawn[:, 0] = mean
    change_basis(module, FAMILIES[family], torch.linalg.qr(drawn).Q)
    tokenizer = load_tokenizer(source)
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    expected, found = (open_predictor(each, 32).logits(TEXTS) for each in (source, made))
    with torch.no_grad():
        random = module(**inputs).logits.numpy()
    assert abs(found - expected).mean() < 0.7 * abs(random - expected).mean()


@pytest.mark.parametrize(
    ("family", "task"),
    [
        case("bert", "text-classification", slow=True),
        case("gpt2", "text-generation", slow=True),
        *(case(name, "text-classification", slow=True) for name in ("gpt2", "llama", "electra", "roberta", "mpnet")),
        *(case(name, "fill-mask", slow=True) for name in ("bert", "roberta", "electra", "distilbert", "mpnet")),
        case("llama", "text-generation", slow=True),
    ],
)
def test_a_rotation_alone_survives_saving_and_export(
    family: str, task: str, tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source, data = tiny_artifact(family, layers=1, task=task), job_data(task=task)
    made = carry_out(tmp_path, source, [("reduce_width", {"width": 32, "rows": 8})], data)
    assert error(made, source) < 1e-5
    graph = carry_out(tmp_path, made, [("export_onnx", {"tolerance": 1e-4})], data)
    assert error(graph, source) < 1e-4


@pytest.mark.slow
def test_the_model_is_as_small_as_the_facts_say_and_trains(bert: Artifact, tmp_path: Path) -> None:
    """Steps before and after it; hidden states are compared with those of a teacher of the full width."""
    chain = [
        ("prune_ffn", {"fraction": 0.5, "rows": 8}), ("reduce_width", {"fraction": 0.4, "rows": 8}),
    ]  # fmt: skip
    made = carry_out(tmp_path, bert, chain)
    told, layout = facts(made), layout_of(made.config, made.edits)
    assert (told["width"], told["of"], layout.width) == (24, 32, 24)  # 32 - 13 = 19, rounded up
    assert told["parameters_after"] == count_module(load_module(made)).parameters < told["parameters_before"]
    after = [
        ("factorise", {"budget": 0.6, "embedding_rank": 8}),
        ("distil", {"epochs": 0.4, "batch_size": 8, "hidden": 1.0}),
        ("reduce_width", {"width": 16, "rows": 8}),
        ("prune_layers", {"layers": [1]}),
    ]
    end = carry_out(tmp_path, made, after[:2], teacher=bert)
    assert end.edits[:2] == made.edits
    states = load_module(end)(input_ids=torch.tensor([[2, 40, 3]]), output_hidden_states=True).hidden_states
    assert {each.shape[-1] for each in states} == {24}
    again = carry_out(tmp_path, carry_out(tmp_path, made, after[2:]), [])
    assert layout_of(again.config, again.edits).width == 16
    assert open_predictor(again, 32).logits(TEXTS).shape == (len(TEXTS), 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give either width or fraction"),
        ({"width": 16, "fraction": 0.5}, "give either width or fraction"),
        ({"fraction": 1.0}, "less than 1"),
    ],
)
def test_settings_that_say_nothing_or_too_much_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        step_of("reduce_width", **settings)


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("bert", {"width": 40}, r"reduce_width\.width: 40 is not in 2-32, the width of the states"),
        ("t5", {"width": 16}, r"reduce_width: works for bert, .*, xlm-roberta, not for t5"),
    ],
)
def test_what_does_not_fit_the_model_is_known_before_training(
    family: str, settings: dict[str, Any], message: str, tiny_artifact: MakeArtifact
) -> None:
    with pytest.raises(SettingError, match=message):
        step_of("reduce_width", **settings).check(layout_of(tiny_artifact(family).config), None)


@pytest.mark.parametrize(
    ("fraction", "multiple_of", "width"), [(0.25, 8, 24), (0.3, 8, 24), (0.3, 1, 22), (0.9, 64, 32)]
)
def test_what_stays_is_rounded_up(fraction: float, multiple_of: int, width: int, bert: Artifact) -> None:
    step = step_of("reduce_width", fraction=fraction, multiple_of=multiple_of)
    assert step.check(layout_of(bert.config), None).width == width
