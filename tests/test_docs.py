"""The documentation against what there is: every command, step, probe and setting is told of, and nothing else is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from assay import cli
from assay.core.config.job import JobSettings
from assay.core.config.load import load_job
from assay.core.data.settings import DataSettings
from assay.core.measure.settings import MeasureSettings
from assay.core.plugins import PROBES, STEPS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
METHODS: dict[tuple[str, str], type[BaseModel]] = {
    (page, name): shelf.get(name) for page, shelf in (("steps", STEPS), ("probes", PROBES)) for name in shelf.names()
}
TABLES = METHODS | {("config", "data"): DataSettings, ("config", "measure"): MeasureSettings}
COMMANDS: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
ENDS: dict[str, Any] = {
    f"{name} {below}".strip(): end
    for name, command in COMMANDS.items()
    for below, end in (getattr(command, "commands", None) or {"": command}).items()
}


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def sections(name: str) -> dict[str, str]:
    """Heading -> text below it."""
    parts = re.split(r"^## (.+)$", page(name), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def told(name: str, section: str) -> str:
    """A section, with the one whose settings it says it takes."""
    text = sections(name)[section]
    taken = re.search(r"[Tt]akes the settings of `(\w+)`", text)
    return text + (sections(name)[taken[1]] if taken else "")


def rows(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """(settings, defaults) of each line of a settings table."""
    for line in re.findall(r"^\| (`.+) \|$", text, flags=re.MULTILINE):
        names, default, *_ = (cell.strip() for cell in re.split(r"(?<!\\)\|", line))
        settings = re.findall(r"`(\w+)`", names)
        yield settings, default.split(", ") if len(settings) > 1 else [default]


def blocks(path: Path, *languages: str) -> list[str]:
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", path.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("place", "name"), METHODS)
def test_every_step_and_probe_has_a_section_with_each_of_its_settings(place: str, name: str) -> None:
    missing = [field for field in METHODS[place, name].model_fields if f"`{field}`" not in told(place, name)]
    assert not missing, f"docs/{place}.md, section {name}"


@pytest.mark.parametrize("place", ["steps", "probes"])
def test_every_section_is_a_step_or_probe(place: str) -> None:
    assert sorted(sections(place)) == sorted(name for page, name in METHODS if page == place)


@pytest.mark.parametrize(("place", "name"), TABLES)
def test_every_row_of_a_settings_table_is_a_setting_with_its_default(place: str, name: str) -> None:
    fields = TABLES[place, name].model_fields
    for settings, defaults in rows(sections(place)[name]):
        assert set(settings) <= fields.keys(), f"docs/{place}.md, section {name}"
        for setting, written in zip(settings, defaults, strict=len(defaults) > 1):
            assert is_default(written, fields[setting].get_default()), f"{name}.{setting}: {written!r}"


def is_default(written: str, default: Any) -> bool:
    """Whether a table's cell stands for the default. What has none, or one that takes words, is not compared."""
    written = written.strip("`")
    if isinstance(default, bool):
        return written == str(default).lower()
    if isinstance(default, int | float):
        return float(written) == default
    if isinstance(default, str):
        return written == default
    return not re.fullmatch(r"[-+.\de]+|true|false", written)


def test_the_tables_are_found_at_all() -> None:
    found = {name: list(rows(sections(place)[name])) for place, name in TABLES}
    assert (["epochs"], ["2"]) in found["finetune"]
    assert (["samples", "test_samples"], ["600", "300"]) in found["linear"]
    assert is_default("8e-5", 8e-5)
    assert not is_default("2", 3)
    assert not is_default("64", None)


@pytest.mark.parametrize("section", ["data", "measure"])
def test_every_setting_of_a_part_of_the_config_is_told(section: str) -> None:
    text = sections("config")[section]
    missing = [name for name in TABLES["config", section].model_fields if f"`{name}`" not in text]
    assert not missing


def test_every_part_of_the_config_is_in_the_example() -> None:
    (example,) = [block for block in blocks(ROOT / "docs" / "config.md", "yaml") if "variants:" in block]
    missing = [name for name in JobSettings.model_fields if not re.search(rf"^{name}:", example, flags=re.MULTILINE)]
    assert not missing


def paragraph(command: str) -> str:
    """What docs/commands.md says of a command."""
    parts = re.split(r"^(?=\*\*`assay )", page("commands"), flags=re.MULTILINE)
    return next(part for part in parts if part.startswith(f"**`assay {command}"))


@pytest.mark.parametrize("command", ENDS)
def test_every_command_is_told_with_each_of_its_options(command: str) -> None:
    options = [name for parameter in ENDS[command].params for name in parameter.opts if name.startswith("--")]
    missing = [name for name in options if name != "--help" and f"`{name}" not in paragraph(command)]
    assert not missing


@pytest.mark.parametrize("command", ENDS)
def test_every_option_that_is_told_exists(command: str) -> None:
    options = {name for parameter in ENDS[command].params for name in parameter.opts}
    assert set(re.findall(r"`(--[\w-]+)", paragraph(command))) <= options


def test_no_command_is_told_that_does_not_exist() -> None:
    named = {word for path in PAGES for word in re.findall(r"`assay (\w+)", path.read_text())}
    assert named <= COMMANDS.keys()


COMMAND_LINES = [
    (path.name, line.strip().removeprefix("$ "))
    for path in PAGES
    for block in blocks(path, "sh", "console", "bash", "shell")
    for line in block.splitlines()
    if line.strip().removeprefix("$ ").startswith("assay ")
]


@pytest.mark.parametrize(("path", "line"), COMMAND_LINES)
def test_every_command_line_that_is_shown_is_understood(path: str, line: str) -> None:
    _, command, *words = shlex.split(line, comments=True)
    COMMANDS[command].make_context(f"assay {command}", words)


def test_the_readme_shows_command_lines() -> None:
    assert {line.split()[1] for path, line in COMMAND_LINES if path == "README.md"} >= {"check", "run", "compare"}


JOBS = [
    (path.name, block) for path in PAGES for block in blocks(path, "yaml") if "variants:" in block and "model:" in block
]


@pytest.mark.parametrize(("path", "text"), JOBS, ids=[name for name, _ in JOBS])
def test_every_config_that_is_shown_loads(path: str, text: str, tmp_path: Path) -> None:
    config = tmp_path / "shown.yaml"
    config.write_text(text)
    assert load_job(config, check_files=False).variants


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []
