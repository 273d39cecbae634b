"""Train a student to answer as the teacher does (Hinton et al. 2015), optionally to think as it does (TinyBERT).

loss = alpha * T^2 KL(teacher || student) + (1 - alpha) * task loss + hidden * squared error of hidden states

Teacher and student read the same texts through their own tokenizers. Hidden states can only be compared token by
token, so `hidden > 0` needs the same tokenizer on both sides.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from assay.core.artifact import Artifact, is_language
from assay.core.errors import InputError, SettingError
from compress.step import Context
from compress.training import SAME_TOKENS, TrainingStep, open_for_training, same_tokens, teacher_answers, train_and_save

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from assay.core.model.layout import Layout

OTHER_TOKENS = "student and teacher have different vocabularies; set hidden: 0, or cut the vocabulary after distil"
LayerPair = Annotated[list[int], Field(min_length=2, max_length=2)]


class Distil(TrainingStep):
    """`layer_map` pairs original layer numbers [student, teacher]; by default each layer the student still has learns
    from the teacher's layer of the same original number."""

    uses_teacher: ClassVar[bool] = True

    temperature: float = Field(default=2.0, gt=0)
    alpha: float = Field(default=0.9, ge=0, le=1)
    hidden: float = Field(default=0.0, ge=0)
    layer_map: list[LayerPair] | None = Field(default=None, min_length=1)

    def check(self, layout: Layout, teacher: Layout | None) -> Layout | None:
        """As every training step; `layer_map` names layers of student and teacher, `hidden` wants the same tokens."""
        if self.hidden and teacher is not None and len(layout.tokens) != len(teacher.tokens):
            raise SettingError("distil.hidden", OTHER_TOKENS)
        if self.layer_map is not None and teacher is not None:
            self._pairs(layout, teacher)
        return super().check(layout, teacher)

    def check_task(self, task: str, layout: Layout, teacher: Layout | None) -> None:
        """A language model's teacher must name the same tokens."""
        if is_language(task) and teacher is not None and len(layout.tokens) != len(teacher.tokens):
            raise SettingError("distil", SAME_TOKENS)

    def apply(self, source: Artifact, out: Path, ctx: Context) -> dict[str, Any]:
        """Facts: as finetune."""
        from compress.losses.distil import DistilLoss

        if ctx.teacher is None:
            raise InputError("distil needs a teacher; it can stand in variants only")
        module = open_for_training(source, ctx.data, ctx.seed)
        logits, teacher = teacher_answers(ctx)
        loss = DistilLoss(
            self.temperature, self.alpha, ctx.data.task, logits, *self._hidden(source, module, teacher, ctx)
        )
        return train_and_save(self, source, module, loss, out, ctx)

    def tiny(self) -> Self:
        """One short epoch; an explicit layer map cannot fit two layers."""
        return super().tiny().model_copy(update={"layer_map": None})

    def _hidden(
        self, source: Artifact, student: PreTrainedModel, teacher: PreTrainedModel | None, ctx: Context
    ) -> tuple[Any, ...]:
        if not self.hidden or ctx.teacher is None:
            return (teacher,)
        from assay.core.model.edits import layout_of
        from assay.core.model.load import load_module
        from compress.losses.hidden import HiddenLoss

        if not same_tokens(source, ctx.teacher):
            raise SettingError("distil.hidden", OTHER_TOKENS)
        teacher = teacher or load_module(ctx.teacher, attn_implementation="sdpa")
        ours, theirs = (layout_of(model.config, model.edits) for model in (source, ctx.teacher))
        loss = HiddenLoss(self._pairs(ours, theirs), ours.width, theirs.width, ctx.seed)
        return teacher, loss, self.hidden

    def _pairs(self, student: Layout, teacher: Layout) -> list[tuple[int, int]]:
        """Positions of the hidden states to compare, [student, teacher]; position 0 is the embeddings' output."""
        ours, theirs = (
            {layer.index: position for position, layer in enumerate(layout.layers, 1)} for layout in (student, teacher)
        )
        wanted = self.layer_map or [[layer, layer] for layer in ours if layer in theirs]
        try:
            return [(ours[s], theirs[t]) for s, t in wanted]
        except KeyError as missing:
            text = f"layer {missing} is not there; student {[*ours]}, teacher {[*theirs]}"
            raise SettingError("distil.layer_map", text) from None
