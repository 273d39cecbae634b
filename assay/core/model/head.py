"""The classification head of a pretrained source: kept when its classes are the job's, drawn anew otherwise."""

from __future__ import annotations

import logging
from collections.abc import Collection

import torch
from transformers import PretrainedConfig, PreTrainedModel

from assay.core.errors import InputError
from assay.core.model.anatomy import Family
from assay.core.model.linear import select

REGRESSION_NAMES = ("LABEL_0",)  # what transformers calls the one output of a regression
INIT_STD = 0.02  # where the config states none (BART, T5)
log = logging.getLogger(__name__)


def head_names(source: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Class names to load the source with: its own order where it has the wanted classes, else the wanted ones."""
    return source if sorted(source) == sorted(wanted) else wanted


def set_names(config: PretrainedConfig, names: tuple[str, ...]) -> None:
    """Write class names in the order of the logits into the config; the number of outputs follows."""
    config.id2label = dict(enumerate(names))
    config.label2id = {name: index for index, name in enumerate(names)}


def fit_head(
    module: PreTrainedModel, family: Family, wanted: tuple[str, ...], kept: bool, missing: Collection[str], seed: int
) -> None:
    """Give `module` a head for the classes `wanted`, and log what was done.

    `missing` parameters are drawn anew from `seed` (normal weights, zero biases). The last linear map is drawn as well
    unless it is there and `kept`, i.e. made for these classes; its outputs are then put in the wanted order.
    InputError where something outside the head is missing."""
    foreign = [name for name in missing if not name.startswith(tuple(f"{part}." for part in family.head))]
    if foreign:
        raise InputError(
            f"the config asks for tensors that are missing or of another shape: {', '.join(sorted(foreign))}"
        )
    last = {f"{family.classifier}.{name}" for name, _ in module.get_submodule(family.classifier).named_parameters()}
    if kept and last.isdisjoint(missing):
        _reorder(module, family, wanted)
    else:
        missing = last.union(missing)
        log.warning("classification head for %s is new; it needs training", ", ".join(wanted))
    set_names(module.config, wanted)
    _draw(module, sorted(missing), seed)


def _reorder(module: PreTrainedModel, family: Family, wanted: tuple[str, ...]) -> None:
    names = [name for _, name in sorted((module.config.id2label or {}).items())]
    log.info("classification head of the source is kept; its classes are %s", ", ".join(names))
    select(module.get_submodule(family.classifier), [names.index(name) for name in wanted], dim=0)


def _draw(module: PreTrainedModel, names: list[str], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name in names:
            parameter = module.get_parameter(name)
            if name.endswith("bias"):
                parameter.zero_()
            else:
                parameter.normal_(0.0, getattr(module.config, "initializer_range", INIT_STD), generator=generator)
