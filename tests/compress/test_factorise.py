"""Ranks are those that energy and budget name; weighted factors err less on what the maps read; graphs are the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from by_family import case
from pydantic import ValidationError
from tiny_jobs import carry_out, job_data, step_of

from assay.core.artifact import GRAPH, Artifact
from assay.core.errors import SettingError
from assay.core.manifest import Manifest
from assay.core.measure.weights_count import count_graph, count_module
from assay.core.model.anatomy import FAMILIES
from assay.core.model.blocks import blocks_of
from assay.core.model.edits import layout_of
from assay.core.model.linear import FactoredLinear, matrix
from assay.core.model.load import load_module
from assay.core.model.predict import open_predictor
from compress.low_rank.candidates import Candidate
from compress.low_rank.ranks import Spectrum, ranks_by_budget, ranks_by_energy

MakeArtifact = Callable[..., Artifact]


def facts(artifact: Artifact) -> dict[str, Any]:
    return Manifest.read(artifact.path).facts


def spectrum(*values: float, outputs: int = 10, inputs: int = 10) -> Spectrum:
    """Of a map whose singular values are these; a rank costs 20 parameters of 100."""
    return Spectrum(torch.tensor(values).square(), outputs, inputs)


class TestRanks:
    """Values worked out by hand."""

    @pytest.mark.parametrize(("energy", "rank"), [(0.5, 1), (0.63, 1), (0.65, 2), (0.95, 2), (0.97, 3)])
    def test_energy_is_the_share_of_squared_singular_values(self, energy: float, rank: int) -> None:
        one = spectrum(8, 5.6, 2.1, 0.5)  # squares 64, 31.36, 4.41, 0.25 of 100.02
        assert ranks_by_energy([one], energy) == [rank]
        assert one.kept(rank) >= energy

    def test_a_map_that_would_not_be_smaller_is_left_whole(self) -> None:
        flat = spectrum(*[1.0] * 10)
        assert ranks_by_energy([flat], 0.4) == [4]  # 80 of 100 parameters
        assert ranks_by_energy([flat], 0.41) == [None]  # rank 5 has 100

    def test_a_budget_is_spent_where_a_rank_brings_most(self) -> None:
        steep, flat = spectrum(9, 1, 0.1), spectrum(3, 3, 3, 3)
        assert ranks_by_budget([steep, flat], 0.4) == [1, 3]  # 4 ranks of 20 in 80 of 200
        assert ranks_by_budget([steep, flat], 0.3) == [1, 2]

    def test_energy_counts_in_shares_of_a_map_and_a_rank_by_its_price(self) -> None:
        small, loud = spectrum(3, 3, 3), spectrum(300, 300, 300)
        assert ranks_by_budget([small, loud], 0.4) == [2, 2]
        dear = spectrum(3, 3, 3, outputs=10, inputs=100)  # a rank costs 110 of 1000
        assert ranks_by_budget([dear, spectrum(3, 3, 3)], 200 / 1100) == [1, 4]

    def test_what_is_left_brings_a_map_back_whole(self) -> None:
        flat = spectrum(*[1.0] * 10)
        assert ranks_by_budget([spectrum(9, 0.1), flat], 0.6) == [1, None]  # 20 + 100 of 200
        assert ranks_by_budget([flat, flat], 0.99) == [None, 4]

    def test_the_budget_is_kept(self) -> None:
        generator = torch.Generator().manual_seed(0)
        spectra = [
            Spectrum(torch.rand(8, generator=generator).sort(descending=True).values, 8 + 4 * each, 8)
            for each in range(6)
        ]
        for budget in (0.35, 0.5, 0.8):
            ranks = ranks_by_budget(spectra, budget)
            spent = sum(each.parameters(rank) for each, rank in zip(spectra, ranks, strict=True))
            whole = sum(each.whole for each in spectra)
            assert (budget - 0.1) * whole < spent <= budget * whole


def test_weighted_factors_err_less_on_what_the_map_reads() -> None:
    """Inputs of unlike size: the weighted rank-2 map has the smaller error on them, the plain one on even inputs."""
    generator = torch.Generator().manual_seed(0)
    weight, scale = torch.randn(8, 6, generator=generator), torch.tensor([9.0, 5.0, 1.0, 0.5, 0.2, 0.1])
    even = torch.randn(500, 6, generator=generator)

    def error(found: torch.Tensor, rows: torch.Tensor) -> float:
        return float((rows @ (weight - found).T).square().mean())

    linear = torch.nn.Linear(6, 8)
    linear.weight.data = weight.clone()
    candidate = Candidate((0,), "q", linear, scale)
    spectrum = candidate.spectrum()
    candidate.approximate(2)
    weighted = matrix(linear).detach()
    left, values, right = torch.linalg.svd(weight)
    plain = (left[:, :2] * values[:2]) @ right[:2]
    assert torch.linalg.matrix_rank(weighted) == 2
    assert error(weighted, even * scale) < 0.7 * error(plain, even * scale)
    assert error(plain, even) < error(weighted, even)
    left_out = float(((weight - weighted) * scale).square().sum() / (weight * scale).square().sum())
    assert spectrum.kept(2) == pytest.approx(1 - left_out, abs=1e-5)


@pytest.mark.parametrize("weighting", ["none", "activations"])
def test_the_model_is_as_small_as_the_facts_say(weighting: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("bert")
    settings = {"budget": 0.5, "weighting": weighting, "rows": 8, "embedding_rank": 4}
    made = carry_out(tmp_path, source, [("factorise", settings)])
    told, module = facts(made), load_module(made)
    before, after = count_module(load_module(source)).parameters, count_module(module).parameters
    embedding = told["embedding"]
    saved = told["parameters_before"] - told["parameters_after"]
    saved += embedding["parameters_before"] - embedding["parameters_after"]
    assert before - after == saved
    assert told["parameters_after"] <= 0.5 * told["parameters_before"]
    for layer, block in enumerate(blocks_of(module, FAMILIES["bert"])):
        parts = {name: block.part(path) for name, path in block.maps().items()}
        split = {name: part.rank for name, part in parts.items() if isinstance(part, FactoredLinear)}
        assert split == told["ranks"].get(str(layer), {})
        assert sorted(parts.keys() - split) == sorted(told["left_whole"].get(str(layer), []))
    kept = [share for layer in told["energy_kept"].values() for share in layer.values()]
    assert all(0 < share < 1 for share in [*kept, embedding["energy_kept"]])
    assert embedding["rank"] == layout_of(made.config, made.edits).embedding_rank == 4


def test_weighting_by_rows_is_nearer_to_the_model_than_plain(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("gpt2")
    texts = job_data().train.texts
    expected = open_predictor(source, 32).logits(texts)
    errors = {}
    for weighting in ("none", "activations"):
        settings = {"budget": 0.6, "weighting": weighting, "parts": ["ffn"], "rows": 48}
        made = carry_out(tmp_path, source, [("factorise", settings)])
        errors[weighting] = abs(open_predictor(made, 32).logits(texts) - expected).mean()
    assert errors["activations"] < errors["none"]


def test_only_the_parts_and_layers_named_are_split(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    settings = {"budget": 0.4, "parts": ["ffn"], "layers": [1, 2]}
    told = facts(carry_out(tmp_path, tiny_artifact("bert"), [("factorise", settings)]))
    maps = [name for layer in told["ranks"].values() for name in layer]
    assert set(told["ranks"]) <= {"1", "2"}
    assert set(maps) <= {"ffn_in", "ffn_out"}
    assert told["parameters_before"] == 4 * 32 * 48


def test_layers_of_the_same_weights_are_split_and_counted_once(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    source = tiny_artifact("albert")
    told = facts(carry_out(tmp_path, source, [("factorise", {"budget": 0.5})]))
    assert told["parameters_before"] == 4 * 32 * 32 + 2 * 32 * 48
    assert len(told["ranks"]) == 4
    assert all(ranks == told["ranks"]["0"] for ranks in told["ranks"].values())


def test_maps_that_are_split_already_are_left(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    attention, rest = {"budget": 0.3, "parts": ["attention"]}, {"budget": 0.3}
    made = carry_out(tmp_path, tiny_artifact("bert"), [("factorise", attention), ("factorise", rest)])
    assert facts(made)["parameters_before"] == 4 * 2 * 32 * 48
    with pytest.raises(SettingError, match=r"factorise\.parts: all the maps named are factored already"):
        carry_out(tmp_path, made, [("factorise", attention)])


@pytest.mark.parametrize("family", [case("bert", slow=False), case("gpt2", slow=True), case("t5", slow=True)])
def test_the_graph_gives_the_same_logits(family: str, tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    chain = [("factorise", {"budget": 0.5, "embedding_rank": 4}), ("prune_ffn", {"fraction": 0.5, "rows": 8})]
    made = carry_out(tmp_path, tiny_artifact(family, layers=2), chain)
    graph = carry_out(tmp_path, made, [("export_onnx", {"tolerance": 1e-4})])
    assert facts(graph)["parity"]["max_abs"] < 1e-4
    held = count_module(load_module(made)).parameters
    assert count_graph(graph.path / GRAPH).parameters == pytest.approx(held, rel=0.05)


@pytest.mark.slow
def test_a_factored_embedding_in_eight_bits_is_smaller_than_a_whole_one(
    tiny_artifact: MakeArtifact, tmp_path: Path
) -> None:
    source, end = tiny_artifact("bert", layers=2), [("export_onnx", {}), ("quantize", {})]
    small = carry_out(tmp_path, source, [("factorise", {"embedding_rank": 4}), *end])
    whole = carry_out(tmp_path, source, end)
    stored = {item.name: item for item in onnx.load(small.path / GRAPH).graph.initializer}
    table = stored["bert.embeddings.word_embeddings.weight_quantized"]
    assert list(table.dims) == [source.config["vocab_size"], 4]
    saved = (whole.path / GRAPH).stat().st_size - (small.path / GRAPH).stat().st_size
    assert saved > 0.8 * source.config["vocab_size"] * (32 - 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give energy or budget for the linear maps, embedding_rank"),
        ({"energy": 0.9, "budget": 0.5}, "give either energy or budget"),
        ({"embedding_rank": 4, "layers": [0]}, "parts, layers and weighting are of the linear maps"),
        ({"energy": 1.0}, "less than 1"),
    ],
)
def test_settings_that_say_nothing_or_too_much_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        step_of("factorise", **settings)


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("bert", {"budget": 0.5, "layers": [0, 9]}, r"factorise\.layers: 9 is not among the layers present, 0-3"),
        ("bert", {"budget": 0.5, "parts": ["cross_attention"]}, r"factorise\.parts: cross_attention: no layer of this"),
        ("albert", {"budget": 0.5, "layers": [0]}, r"layers 0, 1, 2, 3 have the same weights; name all or none"),
        ("bert", {"embedding_rank": 30}, r"factorise\.embedding_rank: 30 saves nothing on an embedding of 248 tokens"),
    ],
)
def test_what_does_not_fit_the_model_is_known_before_training(
    family: str, settings: dict[str, Any], message: str, tiny_artifact: MakeArtifact
) -> None:
    with pytest.raises(SettingError, match=message):
        step_of("factorise", **settings).check(layout_of(tiny_artifact(family).config), None)


def test_training_goes_on_with_the_factors(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    """BART holds its table in three embeddings, which stay one."""
    made = carry_out(tmp_path, tiny_artifact("bart"), [("factorise", {"budget": 0.5, "embedding_rank": 4})])
    trained = carry_out(tmp_path, made, [("finetune", {"epochs": 0.5, "batch_size": 8})])
    before, after = load_module(made), load_module(trained)
    assert trained.edits == made.edits
    assert count_module(after).parameters == count_module(before).parameters
    shared, encoder = after.model.shared, after.model.encoder.embed_tokens
    assert shared.weight is encoder.weight
    assert shared.expand is encoder.expand
    assert not torch.equal(shared.weight, before.model.shared.weight)
    assert not torch.equal(shared.expand.weight, before.model.shared.expand.weight)


def test_energy_that_leaves_all_whole_is_refused(tiny_artifact: MakeArtifact, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"factorise\.energy: 0\.999 leaves each of the 24 maps whole"):
        carry_out(tmp_path, tiny_artifact("bert"), [("factorise", {"energy": 0.999})])
