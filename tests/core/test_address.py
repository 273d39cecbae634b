from __future__ import annotations

import sys
from pathlib import Path

import pytest

from assay.core.address import resolve
from assay.core.errors import InputError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shelf_of_rows"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('an address must not run the package')")
    (folder / "data" / "rows.csv").write_text("text,label\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return folder


def test_a_path_is_itself(tmp_path: Path) -> None:
    assert resolve(str(tmp_path)) == tmp_path


def test_package_file_is_found_without_importing_the_package(package: Path) -> None:
    assert resolve("pkg:shelf_of_rows/data/rows.csv") == package / "data" / "rows.csv"
    assert "shelf_of_rows" not in sys.modules


def test_missing_package_names_what_to_install() -> None:
    with pytest.raises(InputError, match=r"'no_such_shelf' is not installed; pip install no-such-shelf"):
        resolve("pkg:no_such_shelf/rows.csv")


@pytest.mark.parametrize("address", ["pkg:", "pkg:/rows.csv", "pkg:../rows.csv", "pkg:a.b/rows.csv"])
def test_what_is_no_package_name(address: str) -> None:
    with pytest.raises(InputError, match="is not a package name"):
        resolve(address)


def test_missing_file_names_the_nearest(package: Path) -> None:
    with pytest.raises(InputError, match=r"holds no 'data/row.csv'; did you mean 'rows.csv'"):
        resolve("pkg:shelf_of_rows/data/row.csv")
    with pytest.raises(InputError, match=r"row.csv: no such file or folder; did you mean 'rows.csv'"):
        resolve(str(package / "data" / "row.csv"))


def test_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the folder .*gone does not exist either"):
        resolve(str(tmp_path / "gone" / "rows.csv"))


@pytest.mark.parametrize("target", ["rows.csv", "gone.csv"])
def test_a_link_that_leads_nowhere_is_called_one(tmp_path: Path, target: str) -> None:
    (tmp_path / "rows.csv").symlink_to(target)
    with pytest.raises(InputError, match=rf"rows\.csv: a symbolic link to {target}, which leads nowhere$"):
        resolve(str(tmp_path / "rows.csv"))


def test_hub_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def offline(name: str, **settings: object) -> str:
        asked.append(name)
        raise OSError("no network\nand a long story")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    with pytest.raises(InputError, match=r"^hf:org/model: cannot be fetched from the hub \(no network\)$"):
        resolve("hf:org/model")
    assert asked == ["org/model"]
