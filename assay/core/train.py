"""The one training loop: fine-tuning, distillation and recovery differ only in the loss they pass in.

A thin layer over `transformers.Trainer`. What it adds: batches grouped by length in an order that depends on seed and
epoch alone, checkpoints that carry a hash of their files so that a cut one is never resumed, and a resume that gives
the same weights as an uninterrupted run (CPU, same seed, same thread count). The trainer reads optimizer, schedule and
random state back with `torch.load(weights_only=True)`: tensors and plain data, nothing in a checkpoint can run code.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from assay.core.errors import AssayError
from assay.core.manifest import hash_folder, write_json
from assay.core.model.encoder import Encoder
from assay.core.model.questions import NOT_ASKED, Asker, Question

SEAL = "sealed.json"


class Loss(Protocol):
    """Scalar loss of one batch. May be an `nn.Module` with parameters of its own, which are then trained too.

    `batch` holds the model's inputs, `labels`, and `row` (positions in the training split)."""

    def __call__(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor: ...


@dataclass(frozen=True)
class Schedule:
    """How to train. `epochs` may be a fraction; `learning_rate` rises linearly over `warmup` (share of all steps) and
    falls linearly to zero; `autocast` runs matrix products in bfloat16."""

    epochs: float
    learning_rate: float
    batch_size: int
    weight_decay: float = 0.01
    warmup: float = 0.1
    max_grad_norm: float = 1.0
    autocast: bool = False

    def steps(self, rows: int) -> int:
        """How many steps there are in all, for that many training rows; at least one."""
        return max(1, round(-(-rows // self.batch_size) * self.epochs))


@dataclass(frozen=True)
class History:
    """`curve` holds {step, loss} points, each the mean loss since the point before (after a resume: since the
    checkpoint); `train_loss` is the last of them. `resumed_from` is the step at which an interrupted training went
    on."""

    steps: int
    train_loss: float
    curve: list[dict[str, float]]
    resumed_from: int | None


class LengthGrouped(Sampler[list[int]]):
    """Batches of rows of similar length, in an order that depends on (seed, epoch) only.

    Rows are shuffled, cut into pools of 50 batches, sorted by length inside a pool, and the batches shuffled again:
    padding falls to a few percent while batches stay random."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = np.asarray(lengths), batch_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the loop at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        rows = random.permutation(len(self.lengths))
        pool = self.batch_size * 50
        pools = [rows[start : start + pool] for start in range(0, len(rows), pool)]
        by_length = np.concatenate([part[np.argsort(-self.lengths[part], kind="stable")] for part in pools])
        starts = random.permutation(range(0, len(rows), self.batch_size))
        return iter([by_length[start : start + self.batch_size].tolist() for start in starts])


class TextRows(torch.utils.data.Dataset):
    """Token ids, label and position of each row."""

    def __init__(self, ids: list[list[int]], labels: np.ndarray) -> None:
        self.ids, self.labels = ids, labels

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"input_ids": self.ids[row], "labels": self.labels[row], "row": row}


class Trainee(nn.Module):
    """Model and loss as one module, so that a loss with parameters (a learned projection) is trained and saved too."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        """{"loss": scalar}; AssayError when it is no longer a number."""
        loss = self.loss(self.model, batch)
        if not torch.isfinite(loss):
            raise AssayError(f"training diverged, the loss is {loss.item()}; a lower learning_rate may help")
        return {"loss": loss}

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Tied tensors once, under their first name: a checkpoint has no place for a tensor of two names."""
        whole = super().state_dict(*args, **kwargs)
        return {name: whole[name] for name in dict.fromkeys(_first_names(whole).values())}

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """What `state_dict` gave, tied tensors under each of their names again."""
        first = _first_names(super().state_dict())
        whole = {name: state_dict[kept] for name, kept in first.items() if kept in state_dict}
        return super().load_state_dict({**whole, **state_dict}, *args, **kwargs)


def _first_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Each name with the first of those that stand for the same tensor."""
    kept: dict[Any, str] = {}
    keys = {name: (each.data_ptr(), each.shape) if each.numel() else name for name, each in tensors.items()}
    return {name: kept.setdefault(key, name) for name, key in keys.items()}


class LengthTrainer(Trainer):
    """`Trainer` with our batches; the order of rows must not depend on global random state or it could not resume."""

    def __init__(self, *args: Any, batches: LengthGrouped, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.batches = batches

    def get_train_dataloader(self) -> DataLoader:
        """One DataLoader over our own batch sampler."""
        assert isinstance(self.train_dataset, TextRows)
        loader = DataLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=self.data_collator)
        return self.accelerator.prepare(loader)

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """The trainee computes its own loss."""
        return model(**inputs)["loss"]


class Checkpoints(TrainerCallback):
    """Saves by the clock, seals each checkpoint with the hashes of its files, and removes older ones only then."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds, self.last = folder, seconds, time.monotonic()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Ask for a save when the last one is long enough ago and there is work left to lose."""
        if time.monotonic() - self.last >= self.seconds and state.global_step < state.max_steps:
            control.should_save = True
        return control

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Seal the new checkpoint, then drop the older ones."""
        new = self.folder / f"checkpoint-{state.global_step}"
        write_json(new / SEAL, hash_folder(new))
        for old in self.folder.glob("checkpoint-*"):
            if old != new:
                shutil.rmtree(old)
        self.last = time.monotonic()


class Progress(TrainerCallback):
    """Tells `progress(done, total)` after each step."""

    def __init__(self, progress: Callable[[int, int], None]) -> None:
        self.progress = progress

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Steps done, steps in all."""
        self.progress(state.global_step, state.max_steps)


def train(
    model: nn.Module,
    loss: Loss,
    encoder: Encoder,
    texts: list[str],
    labels: np.ndarray,
    schedule: Schedule,
    seed: int,
    scratch: Path,
    progress: Callable[[int, int], None],
    log: Callable[[str], None],
    checkpoint_seconds: float,
    asker: Asker | None = None,
) -> History:
    """Train `model` in place and leave it in evaluation mode.

    Goes on from the newest whole checkpoint under `scratch`, with the same batches, dropout and optimizer state as if
    it had never stopped, and saves one every `checkpoint_seconds`. Labels are [n] (class index or float) or
    [n, labels]; with an `asker` a batch's are the tokens to name in their place, [batch, tokens]."""
    torch.manual_seed(seed)
    ids = encoder.ids(texts)
    batches = LengthGrouped(encoder.lengths(ids), schedule.batch_size, seed)
    resume = newest_checkpoint(scratch, log)
    trainer = LengthTrainer(
        model=Trainee(model, loss),
        args=_arguments(schedule, seed, scratch, schedule.steps(len(ids))),
        train_dataset=TextRows(ids, labels),
        data_collator=lambda rows: _collate(rows, encoder, asker, batches.epoch),
        callbacks=[Checkpoints(scratch, checkpoint_seconds), Progress(progress)],
        batches=batches,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    model.eval()
    curve = [{"step": line["step"], "loss": line["loss"]} for line in trainer.state.log_history if "loss" in line]
    resumed_from = int(resume.name.rsplit("-", 1)[1]) if resume else None
    return History(trainer.state.global_step, curve[-1]["loss"], curve, resumed_from)


def newest_checkpoint(folder: Path, log: Callable[[str], None]) -> Path | None:
    """The newest checkpoint whose files match its seal. Broken newer ones are removed with one line each."""
    for path in sorted(folder.glob("checkpoint-*"), key=lambda item: -int(item.name.rsplit("-", 1)[1])):
        if _is_whole(path):
            return path
        log(f"{path}: this checkpoint is incomplete and is left out")
        shutil.rmtree(path)
    return None


def _is_whole(checkpoint: Path) -> bool:
    try:
        sealed = json.loads((checkpoint / SEAL).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    found = hash_folder(checkpoint)
    found.pop(SEAL)
    return found == sealed


def _arguments(schedule: Schedule, seed: int, scratch: Path, total: int) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(scratch),
        max_steps=total,
        per_device_train_batch_size=schedule.batch_size,
        learning_rate=schedule.learning_rate,
        weight_decay=schedule.weight_decay,
        warmup_steps=round(total * schedule.warmup),
        max_grad_norm=schedule.max_grad_norm,
        optim="adamw_torch_fused",
        bf16=schedule.autocast,
        seed=seed,
        save_strategy="no",
        logging_steps=max(1, total // 40),
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        log_level="error",
    )


def _collate(rows: list[dict[str, Any]], encoder: Encoder, asker: Asker | None, epoch: int) -> dict[str, Tensor]:
    if asker:
        questions = [asker.in_training(row["input_ids"], row["row"], epoch) for row in rows]
        return asked_batch(questions, encoder) | {"row": torch.tensor([row["row"] for row in rows])}
    inputs = encoder.pad([row["input_ids"] for row in rows])
    batch = {name: torch.from_numpy(value) for name, value in inputs.items()}
    batch["labels"] = torch.from_numpy(np.stack([np.asarray(row["labels"]) for row in rows]))
    batch["row"] = torch.tensor([row["row"] for row in rows])
    return batch


def asked_batch(questions: Sequence[Question], encoder: Encoder) -> dict[str, Tensor]:
    """The model's inputs, and as `labels` the tokens to name, [batch, tokens], `NOT_ASKED` elsewhere."""
    inputs = encoder.pad([question.ids for question in questions])
    labels = np.full_like(inputs["input_ids"], NOT_ASKED)
    for row, question in enumerate(questions):
        labels[row, : len(question.targets)] = question.targets
    return {name: torch.from_numpy(value) for name, value in {**inputs, "labels": labels}.items()}
