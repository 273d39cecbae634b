"""What every training step shares: settings of the schedule, opening the source, saving the result.

Precision: `auto` trains in bfloat16 autocast only where the CPU multiplies bfloat16 in hardware (AMX, AVX512-BF16,
ARM bf16); elsewhere it is emulated and about fifteen times slower than float32.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from assay.core.artifact import Artifact, is_image, is_language
from assay.core.errors import InputError, SettingError
from compress.step import Context, Step

if TYPE_CHECKING:
    import numpy as np
    from torch import nn
    from transformers import PreTrainedModel

    from assay.core.data.prepare import JobData
    from assay.core.model.anatomy import Family
    from assay.core.model.layout import Layout
    from assay.core.train import Loss, Schedule
    from compress.sparsity.matrices import Matrix

SAME_TOKENS = "a language model learns from a teacher of the same tokens; cut the vocabulary after it"
ATTENTION = "eager"  # with dropout, torch's fused attention kernel is the slower one on a CPU


class TrainingStep(Step, ABC):
    """`epochs` may be a fraction: 0.5 sees half of the rows. `learning_rate` is the peak: it rises over `warmup` (share
    of all steps) and falls linearly to zero. `freeze` holds the embeddings and that many of the lowest layers fixed,
    which saves their share of the backward pass; by default everything is trained. `dropout` replaces the model's own
    rate: a short distillation follows the teacher closer, and runs faster, without. `keep_zeros` holds those weights of
    layers, head and word embedding at zero that are exactly zero, as `prune_weights` leaves them. `layer_drop` skips
    each layer with that probability in each step, so that `prune_layers` can later take any depth (Fan et al. 2020)."""

    epochs: float = Field(default=2.0, gt=0)
    learning_rate: float = Field(default=8e-5, gt=0)
    batch_size: int = Field(default=32, ge=1)
    weight_decay: float = Field(default=0.01, ge=0)
    warmup: float = Field(default=0.1, ge=0, lt=1)
    freeze: int | None = Field(default=None, ge=0)
    dropout: float | None = Field(default=None, ge=0, lt=1)
    layer_drop: float = Field(default=0.0, ge=0, lt=1)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    keep_zeros: bool = True

    def check(self, layout: Layout, teacher: Layout | None) -> Layout | None:
        """The same layout; `freeze` must leave a layer to train."""
        self.frozen(len(layout.layers))
        return layout

    def frozen(self, depth: int) -> int:
        """How many of the `depth` layers stay fixed; SettingError where that is all of them."""
        layers = self.freeze or 0
        if layers >= depth:
            step = type(self).__module__.rpartition(".")[2]
            raise SettingError(f"{step}.freeze", f"{layers} leaves none of the {depth} layers to train")
        return layers

    def schedule(self) -> Schedule:
        """The schedule on this machine."""
        from assay.core.train import Schedule

        return Schedule(
            self.epochs, self.learning_rate, self.batch_size, self.weight_decay, self.warmup, autocast=self.autocast()
        )

    def autocast(self) -> bool:
        """Whether matrix products run in bfloat16 here."""
        from assay.core.cpu import FAST_BF16
        from assay.core.machine import describe_machine

        flags = describe_machine()["flags"]
        hardware = any(flags.get(flag) for flag in FAST_BF16)
        return hardware if self.precision == "auto" else self.precision == "bf16"

    def tiny(self) -> Self:
        """One short epoch; at most the embeddings stay fixed, since there are only one or two layers."""
        freeze = None if self.freeze is None else 0
        return self.model_copy(update={"epochs": min(self.epochs, 1.0), "batch_size": 8, "freeze": freeze})


def open_for_training(source: Artifact, data: JobData, seed: int) -> PreTrainedModel:
    """The module of a finished folder, or of a pretrained source with a fresh head for the job's classes."""
    from assay.core.manifest import Manifest
    from assay.core.model.load import load_module, load_source

    if Manifest.read(source.path) is None:
        return load_source(source, data.labels, seed, ATTENTION)
    return load_module(source, ATTENTION)


def task_or_teacher(step: str, alpha: float, temperature: float, ctx: Context) -> Loss:
    """The job's own loss, or with `alpha` above 0 that of `distil`; InputError where there is no teacher for it."""
    from compress.losses.distil import DistilLoss
    from compress.losses.task import TaskLoss

    if not alpha:
        return TaskLoss(ctx.data.task)
    if ctx.teacher is None:
        raise InputError(f"{step} with alpha needs a teacher; it can stand in variants only")
    return DistilLoss(temperature, alpha, ctx.data.task, *teacher_answers(ctx))


def teacher_answers(ctx: Context) -> tuple[np.ndarray | None, PreTrainedModel | None]:
    """(the teacher's logits on the training rows, None), or (None, the teacher) for a language model, whose answers
    would not fit a disk. InputError where a language model's teacher has other tokens."""
    if not is_language(ctx.data.task):
        return ctx.teacher_logits(), None
    from assay.core.model.load import load_module

    assert ctx.teacher is not None
    if not same_tokens(ctx.lineage[-1], ctx.teacher):
        raise InputError(SAME_TOKENS)
    return None, load_module(ctx.teacher, attn_implementation="sdpa")


def same_tokens(student: Artifact, teacher: Artifact) -> bool:
    """Whether both cut a text into the same tokens, or an image into as many, so that these can be compared."""
    from assay.core.model.load import load_reader

    own, theirs = load_reader(student), load_reader(teacher)
    if is_image(student.task):
        return own.max_length == theirs.max_length
    return own.get_vocab() == theirs.get_vocab()


def train_and_save(
    step: TrainingStep,
    source: Artifact,
    module: PreTrainedModel,
    loss: Loss,
    out: Path,
    ctx: Context,
    finish: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Train on the job's training rows, call `finish`, save under `out`, and return the facts: the history, the
    precision and the number of zeros held."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.encoder import open_encoder
    from assay.core.model.load import load_reader, save_module
    from assay.core.model.questions import Asker
    from assay.core.train import train
    from compress.layer_drop import layers_dropped
    from compress.sparsity.zeros import zeros_held

    encoder = open_encoder(source, ctx.data.max_length)
    asker = Asker(encoder.tokenizer, source.task, ctx.seed) if is_language(source.task) else None
    schedule = step.schedule()
    if step.freeze is not None:
        _freeze(module, step)
    if step.dropout is not None:
        _set_dropout(module, step.dropout)
    dropping = layers_dropped(module, family_of(source.family), step.layer_drop)
    with zeros_held(_may_be_sparse(step, source, module)) as zeros, dropping:
        history = train(
            module, loss, encoder, ctx.data.train.texts, ctx.data.train.labels,
            schedule, ctx.seed, ctx.scratch, ctx.progress, ctx.log, ctx.checkpoint_seconds, asker,
        )  # fmt: skip
    finish()
    module.requires_grad_(True)
    save_module(module, out, load_reader(source))
    precision = "bf16" if schedule.autocast else "fp32"
    return {"edits": source.edits, "precision": precision, "zeros_held": zeros, **asdict(history)}


def _may_be_sparse(step: TrainingStep, source: Artifact, module: PreTrainedModel) -> list[Matrix]:
    """The matrices whose zeros are held."""
    from compress.sparsity.matrices import prunable

    return prunable(module, source, ("embeddings", "head")) if step.keep_zeros else []


def _freeze(module: PreTrainedModel, step: TrainingStep) -> None:
    """Hold embeddings and the lowest layers fixed."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.blocks import modules_of

    family = family_of(module.config.model_type)
    blocks = modules_of(module, family)
    for part in (*_embeddings(module, family), *blocks[: step.frozen(len(blocks))]):
        part.requires_grad_(False)


def _embeddings(module: PreTrainedModel, family: Family) -> list[nn.Module]:
    """The module that holds the word embedding or that of patches, with positions and norm; the tables alone where the
    base holds them."""
    from torch import nn

    table = family.word_embeddings
    home = table.rpartition(".")[0] if table else f"{family.base}.embeddings"
    if home != family.base:
        return [module.get_submodule(home)]
    layers = tuple(f"{stack.layers}." for stack in family.stacks)
    parts = module.named_modules()
    return [part for name, part in parts if isinstance(part, nn.Embedding) and not name.startswith(layers)]


def _set_dropout(module: PreTrainedModel, rate: float) -> None:
    from torch import nn

    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = rate
        for name in ("dropout", "attention_dropout", "activation_dropout"):  # BART and Llama hold bare numbers
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, rate)
