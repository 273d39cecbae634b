"""What can be known to be wrong before any training: the model's files, settings that do not fit it, the data."""

from __future__ import annotations

from pathlib import Path

from assay.core.address import resolve
from assay.core.artifact import WEIGHTS, Artifact, is_image, is_language, open_source
from assay.core.config.job import Job
from assay.core.data.prepare import JobData, prepare
from assay.core.errors import InputError
from assay.core.model.anatomy import family_of
from assay.core.model.corrupt import check_reader, check_weights
from assay.run.fit import check_fit
from assay.run.label_order import in_order_of

HEADS = ("ForMaskedLM", "ForPreTraining", "ForCausalLM", "LMHeadModel")  # classes that name tokens


def prepare_job(job: Job, folder: Path | None = None) -> tuple[Artifact, JobData]:
    """The source model and the rows, both checked; `folder` stands in for the job's model. Raises InputError."""
    folder = folder or resolve(job.model)
    source = open_source(folder, job.task)
    check_task(job.task, source, folder / "config.json")
    check_weights(folder / WEIGHTS)
    check_reader(folder, is_image(job.task))
    if is_language(job.task):
        check_language(source)
    if is_image(job.task):
        check_images(source)
    if not job.teacher and not is_language(job.task):
        check_head(source)
    check_fit(job, source)
    data = prepare(job.data, job.task, job.seed)
    return source, data if job.teacher or is_language(job.task) else in_order_of(source.labels, data)


def check_task(task: str, source: Artifact, stated_in: Path) -> None:
    """InputError where the model's family is not known, reads no such rows, or is none for the language task."""
    family = family_of(source.family, stated_in)
    if is_image(task) != family.reads_images:
        reads, advice = ("images", "use") if family.reads_images else ("texts", "do not use")
        kind = "image-classification"
        raise InputError(
            f"task: {task}, but a {source.family} model reads {reads} ({stated_in}); {advice} task: {kind}"
        )
    fits = family.language_task
    if is_language(task) and task != fits:
        advice = f"use task: {fits}" if fits else "models of an encoder and a decoder have no language task here"
        raise InputError(f"task: {task} does not fit a {source.family} model ({stated_in}); {advice}")


def check_images(source: Artifact) -> None:
    """InputError where the image settings of the folder make images that its model does not take."""
    from assay.core.model.image_settings import check_fits, read_settings

    check_fits(read_settings(source.path), source.config, family_of(source.family).any_size)


def check_head(source: Artifact) -> None:
    """InputError where the weights of a model that is used as it is hold no classifier. Reads their header alone."""
    from safetensors import safe_open

    path, wanted = source.path / WEIGHTS, f"{family_of(source.family).classifier}.weight"
    with safe_open(path, framework="np") as file:
        found = wanted in file.keys()  # noqa: SIM118 (it is no mapping)
    if not found:
        raise InputError(
            f"{path}: no classification head ({wanted}); the config has no teacher steps, so the model answers as it "
            "is: add finetune to the teacher"
        )


def check_language(source: Artifact) -> None:
    """InputError where the config says that the model brings no head over the vocabulary, or where its tokenizer lacks
    a token that the task needs."""
    from assay.core.model.load import load_tokenizer

    named = source.config.get("architectures") or []
    if named and not any(name.endswith(HEADS) for name in named):
        path = source.path / "config.json"
        raise InputError(f"{path}: {', '.join(named)} has no head over the vocabulary, which {source.task} needs")
    tokenizer = load_tokenizer(source)
    if source.task == "fill-mask" and tokenizer.mask_token is None:
        raise InputError(f"{source.path}: the tokenizer has no mask token, so {source.task} can hide no token")
