from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.core.plugins import PROBES, STEPS, Shelf, nearest

NUMBERS = count()
CONTRACT = "class Animal: pass\n"
METHOD = "from zoo_contract import Animal\nclass {name}(Animal): pass\n"


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """A package of its own for each test, since modules stay imported under their name."""
    package = f"zoo_{next(NUMBERS)}"
    (tmp_path / "zoo_contract.py").write_text(CONTRACT)
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    for name in ("grey_wolf", "red_fox"):
        (tmp_path / package / f"{name}.py").write_text(METHOD.format(name=name.title().replace("_", "")))
    (tmp_path / package / "_shared.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    return Shelf("animal", package, "zoo_contract:Animal")


def test_file_names_are_the_names_and_private_files_are_not(zoo: Shelf) -> None:
    assert zoo.names() == ["grey_wolf", "red_fox"]
    assert zoo.get("red_fox").__name__ == "RedFox"


def test_a_new_file_is_a_new_method(zoo: Shelf, tmp_path: Path) -> None:
    assert "barn_owl" not in zoo.names()
    (tmp_path / zoo.package / "barn_owl.py").write_text(METHOD.format(name="BarnOwl"))
    assert "barn_owl" in zoo.names()
    assert zoo.get("barn_owl").__name__ == "BarnOwl"


def test_an_unknown_name_gets_the_nearest(zoo: Shelf) -> None:
    with pytest.raises(InputError, match=r"^no animal named 'red_foxx'; did you mean 'red_fox'\?$"):
        zoo.get("red_foxx")
    with pytest.raises(InputError, match=r"^no animal named 'q'; available: grey_wolf, red_fox$"):
        zoo.get("q")


@pytest.mark.parametrize(("text", "found"), [("", 0), (METHOD.format(name="A") + "class B(Animal): pass\n", 2)])
def test_a_file_must_hold_one_class(zoo: Shelf, tmp_path: Path, text: str, found: int) -> None:
    (tmp_path / zoo.package / "odd.py").write_text(text)
    with pytest.raises(ImportError, match=f"odd must hold exactly one Animal, found {found}"):
        zoo.get("odd")


def test_initials_count_as_near() -> None:
    assert nearest("lr", ["learning_rate", "epochs"]) == "; did you mean 'learning_rate'?"
    assert nearest("xy", ["learning_rate", "epochs"]) == "; available: learning_rate, epochs"
    assert nearest("xy", []) == "; available: none"


@pytest.mark.parametrize("shelf", [STEPS, PROBES], ids=lambda shelf: shelf.kind)
def test_every_shipped_method_has_its_class(shelf: Shelf) -> None:
    assert shelf.names()
    assert all(shelf.get(name).__module__ == f"{shelf.package}.{name}" for name in shelf.names())
