"""Learn which heads, neurons and layers can go while the model trains, then cut them out.

Each unit gets a hard concrete gate (Louizos et al. 2018), as Voita et al. 2019 have it for heads. Where they add a
fixed price a gate, a Lagrangian draws the gates to a stated sparsity, over units of several sizes at once, as in CoFi
(Xia et al. 2022). CoFi also gates the width of the model and the two halves of a layer, and copies hidden states; this
does not. For the last part of training the gates are rounded, so that what is left adapts to what is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from assay.core.artifact import Artifact
from assay.core.errors import SettingError
from compress.gated_training import GatedStep, sparsity_facts
from compress.step import Context
from compress.training import open_for_training, train_and_save

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from assay.core.model.anatomy import Family
    from assay.core.model.edits import Edit
    from assay.core.model.layout import Layout
    from compress.gate_choice import Shape
    from compress.gates import Gates


class L0Prune(GatedStep):
    """`sparsity` is the share that goes of the weights of the gated `units`: of all heads and neurons where whole
    `layers` are among them. Every layer that stays keeps a head and a neuron."""

    units: list[Literal["heads", "neurons", "layers"]] = Field(default=["heads"], min_length=1)

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        if len(set(self.units)) < len(self.units):
            raise ValueError(f"units {self.units} name one twice")
        return self

    def check(self, layout: Layout, teacher: Layout | None) -> Layout | None:
        """As every training step; None where layers may go. Layers that share weights cannot have gates of their
        own."""
        if len(layout.groups) < len(layout.layers):
            raise SettingError("l0_prune.units", "layers of this model share weights; use prune_heads or prune_ffn")
        kept = super().check(layout, teacher)
        return None if "layers" in self.units else kept

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: those of finetune; sparsity {target, expected, reached}; what is kept and the gates when decided, by
        original layer; the history of the multipliers."""
        from assay.core.model.anatomy import family_of
        from assay.core.model.edits import apply_edits, layout_of
        from compress.gates import Gates

        module, layout = open_for_training(source, ctx.data, ctx.seed), layout_of(source.config, source.edits)
        self.check(layout, None)
        family = family_of(source.family)
        gates = Gates(shape_of(layout, module, family), self.units, self.gate_speed)
        gated = self.gated_loss(gates, family, ctx)

        def cut() -> None:
            gated.settle()
            apply_edits(module, edits_of(gates, layout), family)

        facts = train_and_save(self, source, module, gated, out, ctx, finish=cut)
        edits = [*source.edits, *(edit.to_json() for edit in edits_of(gates, layout))]
        return facts | {"edits": edits} | sparsity_facts(gated) | gate_facts(gates, layout)


def shape_of(layout: Layout, module: PreTrainedModel, family: Family) -> Shape:
    """Heads and neurons of the present layers, and the weights of one of each, as if nothing were factored."""
    from assay.core.model.blocks import blocks_of
    from compress.gate_choice import Shape

    sizes = {unit: [len(getattr(layer, unit)) for layer in layout.layers] for unit in ("heads", "neurons")}
    first = blocks_of(module, family)[0]
    maps = len(first.parts(first.stack.ffn_in)) + 1
    head = layout.head_dim * layout.width * (2 + 2 / layout.queries_per_kv)  # q and o; k and v, shared by queries
    return Shape(sizes, {"heads": round(head), "neurons": maps * layout.width}, [each.stack for each in layout.layers])


def edits_of(gates: Gates, layout: Layout) -> list[Edit]:
    """What cuts out that which decided gates have closed."""
    from assay.core.model.edits import KeepHeads, KeepLayers, KeepNeurons

    kept = kept_numbers(gates, layout)
    edits: list[Edit] = [KeepLayers(keep=list(kept["layers"]), of=layout.depths)] if "layers" in gates.kinds else []
    edits += [KeepHeads(heads=kept["heads"])] if "heads" in gates.kinds else []
    return edits + ([KeepNeurons(neurons=kept["neurons"])] if "neurons" in gates.kinds else [])


def kept_numbers(gates: Gates, layout: Layout) -> dict[str, dict[int, list[int]]]:
    """Original numbers of the units that stay, by kind and original layer; layers that went are not there."""
    stays = [bool(each) for each in gates.kept.get("layers", [True] * len(layout.layers))]
    kept: dict[str, dict[int, list[int]]] = {"layers": {}}
    for place, layer in enumerate(layout.layers):
        if not stays[place]:
            continue
        kept["layers"][layer.index] = []
        for kind in ("heads", "neurons"):
            numbers = getattr(layer, kind)
            open_ = gates.kept[kind][place].tolist() if kind in gates.kinds else [True] * len(numbers)
            kept.setdefault(kind, {})[layer.index] = [n for n, is_open in zip(numbers, open_, strict=True) if is_open]
    return kept


def gate_facts(gates: Gates, layout: Layout) -> dict[str, Any]:
    """Facts of decided gates; `gates` without noise as they were when decided, of neurons the mean."""
    from compress.hard_concrete import settled

    kept = kept_numbers(gates, layout)
    by_kind = {kind: [settled(each).tolist() for each in layers] for kind, layers in gates.log_alpha.items()}
    if "neurons" in by_kind:
        by_kind["neurons"] = [[sum(layer) / len(layer)] for layer in by_kind["neurons"]]
    numbers = [layer.index for layer in layout.layers]
    return {
        "units": gates.kinds,
        "kept_layers": list(kept["layers"]),
        "kept_heads": kept["heads"],
        "kept_neurons": {layer: len(units) for layer, units in kept["neurons"].items()},
        "gates": {
            kind: {number: [round(each, 3) for each in layer] for number, layer in zip(numbers, layers, strict=True)}
            for kind, layers in by_kind.items()
        },
    }
