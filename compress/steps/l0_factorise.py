"""Linear maps become two matrices each, and which ranks between them stay is learned while the model trains.

FLOP, "factorized low-rank pruning" (Wang, Wohlwend & Lei 2020, "Structured Pruning of Large Language Models"): a hard
concrete gate on each rank (Louizos et al. 2018), drawn by a Lagrangian to a stated sparsity, so that maps share the
parameters among them by what training finds of use. The paper factors anew or trains factors from the start; here they
are those of the singular values, of the highest rank that makes a map no larger, so that training starts near the
source. As in `l0_prune`, gates are rounded before the end, and what is left adapts; then the ranks are cut out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from assay.core.artifact import Artifact
from assay.core.errors import SettingError
from compress.gated_training import GatedStep, sparsity_facts
from compress.low_rank.parts import Part, check_parts, lies_in
from compress.step import Context
from compress.training import open_for_training, train_and_save

if TYPE_CHECKING:
    from torch import nn

    from assay.core.model.anatomy import Family
    from assay.core.model.edits import LowRank
    from assay.core.model.layout import Layout
    from compress.low_rank.gates import Pair


class L0Factorise(GatedStep):
    """`sparsity` is the share that goes of the parameters of the maps of the `parts` (all, unless named); it is reached
    within one rank. Every map keeps a rank, and one that is factored already is left as it is."""

    parts: list[Part] | None = Field(default=None, min_length=1)

    def check(self, layout: Layout, teacher: Layout | None) -> Layout | None:
        """As every training step; ranks only training can tell."""
        check_parts("l0_factorise.parts", self.parts, layout)
        return super().check(layout, teacher)

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: those of finetune; sparsity {target, expected, reached}; ranks by original layer and name of the map;
        parameters of all those maps before and after; the history of the multipliers."""
        from assay.core.model.anatomy import family_of
        from assay.core.model.edits import apply_edits, layout_of
        from compress.low_rank.gates import RankGates

        module, layout = open_for_training(source, ctx.data, ctx.seed), layout_of(source.config, source.edits)
        self.check(layout, None)
        family = family_of(source.family)
        pairs = pairs_of(module, family, layout, lambda name: lies_in(name, self.parts))
        if not pairs:
            raise SettingError("l0_factorise.parts", "all the maps named are factored already")
        apply_edits(module, [edit_of(pairs, [pair.most for pair in pairs])], family)
        gates = RankGates(pairs, self.gate_speed)
        gated = self.gated_loss(gates, family, ctx)

        def cut() -> None:
            gated.settle()
            gates.cut(module, family)

        facts = train_and_save(self, source, module, gated, out, ctx, finish=cut)
        ranks = [int(each.sum()) for each in gates.kept]
        edit = edit_of(pairs, ranks).to_json()
        left = sum(pair.cost * rank for pair, rank in zip(pairs, ranks, strict=True))
        sizes = {"ranks": edit["ranks"], "parameters_before": gates.total, "parameters_after": left}
        return facts | {"edits": [*source.edits, edit]} | sparsity_facts(gated) | sizes


def pairs_of(module: nn.Module, family: Family, layout: Layout, wanted: Callable[[str], bool]) -> list[Pair]:
    """Of the maps whose names are `wanted` and that are not factored yet, each once."""
    from assay.core.model.linear import matrix
    from compress.low_rank.candidates import candidates
    from compress.low_rank.gates import Pair

    numbers = [layer.index for layer in layout.layers]
    found = candidates(module, family, layout, numbers, wanted)
    return [Pair(each.layers, numbers.index(each.layers[0]), each.name, *matrix(each.linear).shape) for each in found]


def edit_of(pairs: Sequence[Pair], ranks: Sequence[int]) -> LowRank:
    """What factors the maps of `pairs` at those ranks."""
    from assay.core.model.edits import LowRank

    by_layer: dict[int, dict[str, int]] = {}
    for pair, rank in zip(pairs, ranks, strict=True):
        for layer in pair.layers:
            by_layer.setdefault(layer, {})[pair.name] = rank
    return LowRank(by_layer)
