"""The classes of the data in the order of a model that is used as it is, matched by name.

A model that a step trains gets its head in the order of the data. Without such a step the order is the model's own,
and reading its logits in another one would look like a model that has learnt nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assay.core.data.prepare import NAMES, JobData, Split, fingerprint
from assay.core.errors import InputError


def in_order_of(names: tuple[str, ...], data: JobData) -> JobData:
    """`data` with its classes in the order of `names`; InputError where they are not the same classes."""
    if not data.labels:
        return _regression(names, data)
    if sorted(names) != sorted(data.labels):
        raise InputError(
            f"the model's classes are {_listed(names)}, those of the data {_listed(data.labels)}; the config has no "
            "teacher steps, so the model answers as it is: give the data the model's names in data.labels, or add "
            "finetune to the teacher"
        )
    if names == data.labels:
        return data
    order = [data.labels.index(name) for name in names]
    splits = {name: _reordered(getattr(data, name), order) for name in NAMES}
    return JobData(
        **splits,
        labels=names,
        task=data.task,
        fingerprint=fingerprint(splits, names, data.max_length, data.task),
        max_length=data.max_length,
        notes=data.notes,
    )


def _regression(names: tuple[str, ...], data: JobData) -> JobData:
    if len(names) != 1:
        raise InputError(
            f"the model has {len(names)} outputs and a regression needs one; the config has no teacher steps, so the "
            "model answers as it is: add finetune to the teacher"
        )
    return data


def _reordered(split: Split, order: list[int]) -> Split:
    """Class indices become positions in `order`, columns of a 0/1 matrix move; hidden labels stay -1."""
    if split.labels.ndim == 2:
        return replace(split, labels=split.labels[:, order])
    positions = np.argsort(order)
    return replace(split, labels=np.where(split.labels < 0, split.labels, positions[split.labels]))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "not named"
