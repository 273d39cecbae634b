"""Linear maps and the word embedding become two matrices of lower rank each, by their singular values.

Maps of the layers: plain SVD, or weighted by what they read (Yuan et al. 2023, "ASVD"; Chen et al. 2021, "DRONE"). Word
embedding: Lan et al. 2020, "ALBERT", section 3.1, who train it so from the start; here a trained table is split. Does
not retrain, and loses much without: add `distil` after. Prune heads and neurons before, since a pair that is pruned
afterwards keeps its rank.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact, is_image, is_language
from assay.core.errors import SettingError
from compress.low_rank.parts import Part, check_parts, lies_in
from compress.pruning import not_among, save_edited, scoring_batches
from compress.step import Context, Step

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from assay.core.model.edits import Edit
    from assay.core.model.layout import Layout
    from compress.low_rank.candidates import Candidate
    from compress.low_rank.ranks import Spectrum


class Factorise(Step):
    """Each linear map of the `parts` (all, unless named) of the `layers` (all, unless named) becomes two matrices. Its
    rank is the lowest that keeps `energy`, a share of its squared singular values; or at most `budget`, a share of the
    parameters of all those maps, stays, spent where a rank keeps most energy a parameter. A map is left whole where two
    matrices would not be smaller, and one that is factored already is left as it is.

    weighting: `none`, or `activations`, by the root mean square of what a map reads on `rows` training rows.
    `embedding_rank` splits the word embedding as well, or alone."""

    energy: float | None = Field(default=None, gt=0, lt=1)
    budget: float | None = Field(default=None, gt=0, lt=1)
    parts: list[Part] | None = Field(default=None, min_length=1)
    layers: list[int] | None = Field(default=None, min_length=1)
    weighting: Literal["none", "activations"] = "none"
    rows: int = Field(default=256, ge=1)
    embedding_rank: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.energy is not None and self.budget is not None:
            raise ValueError("give either energy or budget")
        if self._splits_no_map:
            if self.embedding_rank is None:
                raise ValueError("give energy or budget for the linear maps, embedding_rank for the embedding, or both")
            if self.parts or self.layers or self.weighting != "none":
                raise ValueError("parts, layers and weighting are of the linear maps; give energy or budget with them")
        return self

    def check(self, layout: Layout, teacher: Layout | None) -> Layout:
        """Ranks of maps only weights can tell; of the embedding, the setting."""
        self._check_layers(layout)
        check_parts("factorise.parts", self.parts, layout)
        if self.embedding_rank is None:
            return layout
        if layout.tokens:
            self._check_smaller(len(layout.tokens), layout.width)
        return self._embedding_edits()[0].apply(layout)

    def check_task(self, task: str, layout: Layout, teacher: Layout | None) -> None:
        """A language model's head may be tied to its embedding, so that is left whole; images have no such table."""
        if self.embedding_rank is not None and is_image(task):
            raise SettingError("factorise.embedding_rank", "images have no table of tokens; give energy or budget")
        if self.embedding_rank is not None and is_language(task):
            raise SettingError("factorise.embedding_rank", "only the embedding of classifiers can be factored here")

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts by original layer and name of the map: ranks, energy_kept, and left_whole; parameters of all those maps
        before and after; the same of the embedding under `embedding`, where it was split."""
        from assay.core.model.edits import layout_of
        from assay.core.model.load import load_module

        module, layout = load_module(source), layout_of(source.config, source.edits)
        self.check(layout, None)
        edits, facts = ([], {}) if self._splits_no_map else self._split_maps(module, layout, source, ctx)
        if self.embedding_rank is None:
            return {"edits": save_edited(source, module, edits, out), **facts}
        table = _table(module).detach().clone()
        self._check_smaller(*table.shape)
        saved = save_edited(source, module, [*edits, *self._embedding_edits()], out)
        return {"edits": saved, **facts, "embedding": _embedding_facts(table, module)}

    def tiny(self) -> Self:
        """A budget in the place of energy, which keeps matrices of random numbers whole; all layers; a low rank."""
        changed: dict[str, Any] = {"layers": None, "rows": min(self.rows, 32)}
        if not self._splits_no_map:
            changed |= {"energy": None, "budget": 0.5}
        if self.embedding_rank is not None:
            changed["embedding_rank"] = min(self.embedding_rank, 8)
        return self.model_copy(update=changed)

    @property
    def _splits_no_map(self) -> bool:
        return self.energy is None and self.budget is None

    def _check_layers(self, layout: Layout) -> None:
        named, present = set(self.layers or ()), [layer.index for layer in layout.layers]
        if absent := sorted(named - set(present)):
            raise SettingError("factorise.layers", not_among("layers present", absent, present))
        for group in ([present[place] for place in places] for places in layout.groups):
            if named & set(group) and not named.issuperset(group):
                alike = ", ".join(map(str, group))
                raise SettingError("factorise.layers", f"layers {alike} have the same weights; name all or none")

    def _check_smaller(self, tokens: int, width: int) -> None:
        assert self.embedding_rank is not None
        if self.embedding_rank * (tokens + width) >= tokens * width:
            text = f"{self.embedding_rank} saves nothing on an embedding of {tokens} tokens by {width}"
            raise SettingError("factorise.embedding_rank", text)

    def _embedding_edits(self) -> list[Edit]:
        from assay.core.model.edits import FactoriseEmbedding

        assert self.embedding_rank is not None
        return [FactoriseEmbedding(self.embedding_rank)]

    def _split_maps(
        self, module: PreTrainedModel, layout: Layout, source: Artifact, ctx: Context
    ) -> tuple[list[Edit], dict[str, Any]]:
        """(the edit, facts); the weights are ready for it."""
        from assay.core.model.edits import LowRank

        found = self._candidates(module, layout, source, ctx)
        spectra = [each.spectrum() for each in found]
        ranks = self._ranks(spectra)
        for each, rank in zip(found, ranks, strict=True):
            if rank is not None:
                each.approximate(rank)
        told = _map_facts(found, spectra, ranks)
        return [LowRank(told["ranks"])], told

    def _ranks(self, spectra: list[Spectrum]) -> list[int | None]:
        from compress.low_rank.ranks import ranks_by_budget, ranks_by_energy

        if self.energy is not None:
            found, setting, asked = ranks_by_energy(spectra, self.energy), "energy", self.energy
        else:
            assert self.budget is not None
            found, setting, asked = ranks_by_budget(spectra, self.budget), "budget", self.budget
        if not any(rank is not None for rank in found):
            text = f"{asked} leaves each of the {len(found)} maps whole, since none would be smaller; give less"
            raise SettingError(f"factorise.{setting}", text)
        return found

    def _candidates(self, module: PreTrainedModel, layout: Layout, source: Artifact, ctx: Context) -> list[Candidate]:
        """The maps that the settings name, each once."""
        from assay.core.model.anatomy import family_of
        from compress.low_rank.candidates import candidates, weighted

        layers = [layer.index for layer in layout.layers] if self.layers is None else self.layers
        found = candidates(module, family_of(source.family), layout, layers, lambda name: lies_in(name, self.parts))
        if not found:
            raise SettingError("factorise.parts", "all the maps named are factored already")
        if self.weighting == "none":
            return found
        batches = scoring_batches(source, ctx, self.rows, batch_size=32)
        inputs = [{name: value for name, value in batch.items() if name != "labels"} for batch in batches]
        return weighted(module, found, inputs)


def _map_facts(found: list[Candidate], spectra: list[Spectrum], ranks: list[int | None]) -> dict[str, Any]:
    told: dict[str, Any] = {"ranks": {}, "energy_kept": {}, "left_whole": {}}
    for each, spectrum, rank in zip(found, spectra, ranks, strict=True):
        for layer in each.layers:
            if rank is None:
                told["left_whole"].setdefault(layer, []).append(each.name)
            else:
                told["ranks"].setdefault(layer, {})[each.name] = rank
                told["energy_kept"].setdefault(layer, {})[each.name] = spectrum.kept(rank)
    after = sum(each.parameters(rank) for each, rank in zip(spectra, ranks, strict=True))
    return told | {"parameters_before": sum(each.whole for each in spectra), "parameters_after": after}


def _table(module: PreTrainedModel) -> Tensor:
    from assay.core.model.anatomy import family_of
    from assay.core.model.embedding import word_table

    return word_table(module, family_of(module.config.model_type))


def _embedding_facts(before: Tensor, module: PreTrainedModel) -> dict[str, Any]:
    """From the table before, and the module after."""
    tokens, rank = _table(module).shape
    expand = module.get_input_embeddings().get_submodule("expand")
    kept = expand(_table(module)).detach().float().square().sum() / before.float().square().sum()
    return {
        "rank": rank,
        "parameters_before": before.numel(),
        "parameters_after": rank * (tokens + before.shape[1]),
        "energy_kept": float(kept),
    }
