"""Where a setting belongs, for the message about one that stands where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from pydantic import BaseModel

from assay.core.config.problems import Where
from assay.core.plugins import Shelf, nearest


@dataclass(frozen=True)
class Places:
    """`sections` are the models of the file's top ("") and of its fixed parts ("data", "measure")."""

    sections: dict[str, type[BaseModel]]
    shelves: tuple[Shelf, ...]

    @cached_property
    def homes(self) -> dict[str, list[str]]:
        """Name -> every place that has a setting, step or probe of that name, in words."""
        homes: dict[str, list[str]] = {}
        for name, place in self._pairs():
            homes.setdefault(name, []).append(place)
        return homes

    def unknown(self, path: Where, model: type[BaseModel]) -> str:
        """Words for an unknown setting at `path` inside `model`: the nearest one there, or its place elsewhere."""
        name, known = str(path[-1]), sorted(_model_at(model, path[:-1]).model_fields)
        if name in self.homes:
            close = get_close_matches(name, known, n=1, cutoff=0.75)
            also = f"; did you mean {close[0]!r}?" if close else ""
            return f"no setting {name!r} here; it belongs to {self._home(name)}{also}"
        here = nearest(name, known)
        alike = get_close_matches(name, self.homes, n=1, cutoff=0.75)
        if alike and "did you mean" not in here:
            return f"no setting {name!r} here; did you mean {alike[0]!r} of {self._home(alike[0])}?"
        return f"no setting {name!r}{here}"

    def wrong_list(self, name: str, kind: str) -> str | None:
        """For a step among the probes or the other way round: where it goes. None when no other list has the name."""
        others = [shelf.kind for shelf in self.shelves if shelf.kind != kind and name in shelf.names()]
        return f"{name!r} is a {others[0]}; list it in {_list_of(others[0])}" if others else None

    def _home(self, name: str) -> str:
        return " or ".join(self.homes[name])

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for section, model in self.sections.items():
            yield from ((name, f"'{section}'" if section else "the top of the file") for name in model.model_fields)
        for shelf in self.shelves:
            for method in shelf.names():
                yield method, _list_of(shelf.kind)
                fields = shelf.get(method).model_fields  # type: ignore[attr-defined]
                yield from ((name, f"the {shelf.kind} {method!r}") for name in fields)


def _list_of(kind: str) -> str:
    return "'probes'" if kind == "probe" else "'teacher' or a variant"


def _model_at(model: type[BaseModel], path: Where) -> type[BaseModel]:
    for key in path:
        model = model.model_fields[str(key)].annotation  # type: ignore[assignment]
    return model
