"""What the pruning steps share: rows to score on, and saving a model together with its new edits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from assay.core.artifact import Artifact, is_language
from compress.step import Context

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from assay.core.data.prepare import Split
    from assay.core.model.edits import Edit
    from compress.scores.subject import Subject, Unit

T = TypeVar("T")
UNITS = {"heads": "heads", "cross_heads": "cross", "neurons": "neurons"}  # unit -> field of LayerLayout


def scoring_subject(unit: Unit, module: PreTrainedModel, source: Artifact, ctx: Context, rows: int) -> Subject:
    """The heads or neurons present, with a seeded sample of `rows` training rows to score them on.

    Heads are checked: switching off a layer's heads must change the logits, or no mask would mean anything."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.edits import layout_of
    from assay.core.model.masks import check_masking
    from compress.scores.subject import Subject

    family = family_of(source.family)
    layout = layout_of(source.config, source.edits)
    sizes = [len(getattr(layer, UNITS[unit])) for layer in layout.layers]
    batches = list(scoring_batches(source, ctx, rows, batch_size=32))
    ends = [] if family.reads_images else _ends(source)
    subject = Subject(module, family, unit, sizes, batches, ctx.data.task, ends, ctx.seed, layout.groups)
    if unit == "heads":
        check_masking(module, family, subject.inputs()[0], sizes)
    return subject


def _ends(source: Artifact) -> list[int]:
    """Ids of the tokens that end a text."""
    from assay.core.model.load import load_tokenizer

    tokenizer = load_tokenizer(source)
    return [token for token in (tokenizer.sep_token_id, tokenizer.eos_token_id) if token is not None]


def score_units(name: str, subject: Subject) -> list[Tensor]:
    """What `compress/scores/NAME.py` finds: one tensor >= 0 a present layer; the lowest matter least."""
    scores: list[Tensor] = import_module(f"compress.scores.{name}").score(subject)
    return scores


def choose_units(
    name: str, subject: Subject, fraction: float, per_layer: bool, iterations: int = 1, multiple_of: int = 1
) -> tuple[list[list[int]], list[Tensor]]:
    """(positions that stay in each layer when `fraction` of all units goes, scores), the end of `removal_rounds`."""
    *_, last = removal_rounds(name, subject, fraction, per_layer, iterations, multiple_of)
    return last


def removal_rounds(
    name: str, subject: Subject, fraction: float, per_layer: bool, iterations: int, multiple_of: int = 1
) -> Iterator[tuple[list[list[int]], list[Tensor]]]:
    """Remove `fraction` of all units in `iterations` about equal parts, and score all anew before each, with those gone
    masked. Yields after each (positions that stay in each layer, scores); a unit's score is the last it got.

    The choice and its settings are those of `keep_best`. Layers of the same weights lose the same units, those of the
    lowest mean score; such a unit counts once."""
    import torch

    from compress.scoring import keep_best

    groups = subject.groups or [[place] for place in range(len(subject.sizes))]
    gone = [torch.zeros(size, dtype=torch.bool) for size in subject.sizes]
    scores = [torch.zeros(size) for size in subject.sizes]
    for part in range(1, iterations + 1):
        with _without(subject, gone):
            fresh = score_units(name, subject)
        fresh = _each_layer(groups, [torch.stack([fresh[place] for place in group]).mean(0) for group in groups])
        scores = [torch.where(out, old, new) for out, old, new in zip(gone, scores, fresh, strict=True)]
        ranked = [layer.masked_fill(out, -torch.inf) for layer, out in zip(fresh, gone, strict=True)]
        best = keep_best([ranked[group[0]] for group in groups], fraction * part / iterations, per_layer, multiple_of)
        kept = _each_layer(groups, best)
        gone = [
            torch.ones_like(out).index_fill(0, torch.tensor(stay, dtype=torch.int64), False)
            for out, stay in zip(gone, kept, strict=True)
        ]
        yield kept, scores


def _each_layer(groups: Sequence[Sequence[int]], found: Sequence[T]) -> list[T]:
    """What was found for each group, one entry a layer."""
    by_place = {place: one for group, one in zip(groups, found, strict=True) for place in group}
    return [by_place[place] for place in sorted(by_place)]


def _without(subject: Subject, gone: list[Tensor]) -> AbstractContextManager[None]:
    from compress.scores.subject import MASKS

    return MASKS[subject.unit](subject.module, subject.family, [(~layer).float() for layer in gone])


def scoring_batches(
    source: Artifact, ctx: Context, rows: int, batch_size: int, split: Split | None = None
) -> Iterator[dict[str, Tensor]]:
    """Batches of a seeded sample of the training rows, or of `split`: the model's inputs and `labels`, which for a
    language model are the tokens to name."""
    import torch

    from assay.core.model.encoder import open_encoder
    from assay.core.model.questions import Asker
    from assay.core.train import asked_batch

    split = split or ctx.data.train
    sample = np.random.default_rng(ctx.seed).permutation(len(split))[:rows]
    chosen = split.take(sample)
    encoder = open_encoder(source, ctx.data.max_length)
    if is_language(source.task):
        asker = Asker(encoder.tokenizer, source.task, ctx.seed)
        questions = sorted(map(asker.about, encoder.ids(chosen.texts)), key=lambda question: len(question.ids))
        for start in range(0, len(questions), batch_size):
            yield asked_batch(questions[start : start + batch_size], encoder)
        return
    for index, inputs in encoder.batches(chosen.texts, batch_size):
        batch = {name: torch.from_numpy(value) for name, value in inputs.items()}
        yield batch | {"labels": torch.from_numpy(chosen.labels[index])}


def not_among(what: str, absent: Sequence[int], present: Sequence[int]) -> str:
    """`99 is not among the layers present, 0-5`, for a setting that names units the model does not have."""
    from assay.core.model.ranges import to_ranges

    named = ", ".join(map(str, absent))
    return f"{named} {'is' if len(absent) == 1 else 'are'} not among the {what}, {to_ranges(present)}"


def save_edited(
    source: Artifact,
    module: PreTrainedModel,
    edits: list[Edit],
    out: Path,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> list[dict[str, Any]]:
    """Apply `edits` to the live module, save it under `out` with the source's tokenizer or image settings (unless
    another tokenizer is given), and return the whole list to replay on loading."""
    from assay.core.model.anatomy import family_of
    from assay.core.model.edits import apply_edits
    from assay.core.model.load import load_reader, save_module

    apply_edits(module, edits, family_of(source.family))
    save_module(module, out, tokenizer or load_reader(source))
    return [*source.edits, *(edit.to_json() for edit in edits)]
