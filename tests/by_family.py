"""On which families a test runs by default, and which ones it leaves to `make test-slow`."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.artifact import Task
from assay.core.model.anatomy import FAMILIES

OF_IMAGES = tuple(sorted(name for name, family in FAMILIES.items() if family.reads_images))
OF_TEXTS = tuple(sorted(FAMILIES.keys() - set(OF_IMAGES)))
# One for each way in which families differ where shapes change: one layer for all, encoder and decoder, plain, maps of
# relative positions, queries keys and values in one, grouped queries, a position table, gates without biases.
KINDS = ("albert", "bart", "bert", "deberta-v2", "gpt2", "llama", "mpnet", "t5")


def families(*first: str, of: tuple[str, ...] = OF_TEXTS) -> list[Any]:
    """Every family of texts, or those `of`, as a parameter; all but those named wait for `make test-slow`."""
    return [case(family, slow=family not in first) for family in of]


def case(*values: Any, slow: bool) -> Any:
    """A parameter named by its values, for `make test-slow` alone where `slow`."""
    return pytest.param(*values, id="-".join(map(str, values)), marks=[pytest.mark.slow] if slow else [])


def classes_of(family: str) -> Task:
    """The task of one class a row that models of the family can have."""
    return "image-classification" if family in OF_IMAGES else "text-classification"
