"""What an edit is: one change of shape that can be replayed. The edits are in `edits.py`, `factor_edits.py`,
`share_edit.py`, `duplicate_edit.py` and `width_edit.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from assay.core.model.layout import Layout


class Edit(ABC):
    """One change of shape. `kind` names it in JSON. `cuts`: what stays keeps its values, so that edits in a row may be
    carried out at once; others need the weights as those before left them."""

    kind: ClassVar[str]
    cuts: ClassVar[bool] = True

    @abstractmethod
    def apply(self, layout: Layout) -> Layout:
        """The layout after this edit; InputError where it names what is not there or leaves nothing."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain data that `edit_from_json` reads back."""


def by_number(data: Mapping[Any, Any]) -> dict[int, Any]:
    """The mapping from layer numbers that JSON holds as texts, ascending."""
    return {number: data[key] for number, key in sorted((int(key), key) for key in data)}
