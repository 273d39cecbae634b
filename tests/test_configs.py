"""Every config that is shipped: says what it is for and how to run it, passes `check`, and runs with `--tiny`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from small_jobs import figures, read

from assay import cli
from assay.core.address import PACKAGE, resolve
from assay.core.config.job import Job
from assay.core.config.load import load_job
from assay.core.errors import InputError
from reports.collect import collect

ROOT = Path(__file__).parent.parent
MADE = "data"  # where scripts put what a config reads and no package holds as it is
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
each_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
SLOW = {path.stem: [pytest.mark.slow] for path in CONFIGS}
runs, checks = (
    pytest.mark.parametrize("config", [pytest.param(path, id=path.stem, marks=marks[path.stem]) for path in CONFIGS])
    for marks in (
        SLOW | {"quickstart": [pytest.mark.slow, pytest.mark.job]},
        SLOW | {"quickstart": [], "forgotten": []},
    )
)


def loaded(config: Path) -> Job:
    return load_job(config, check_files=False)


def need_packages(config: Path) -> None:
    """Skip where a package that the config takes model, data or a parser from is not there, or what is made of it is
    not."""
    job = loaded(config)
    for _, probe in job.probes:
        try:
            probe.inputs()
        except InputError as missing:
            pytest.skip(str(missing))
    for address in job.addresses:
        if not address.startswith(PACKAGE) and not (ROOT / address).exists():
            pytest.skip(f"{address} is not there; the first comment of {config.name} says what makes it")
        if address.startswith(PACKAGE):
            try:
                resolve(address)
            except InputError as missing:
                pytest.skip(str(missing))


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(cli, "_quiet_libraries", lambda online: None)
    monkeypatch.setattr(sys, "argv", ["assay", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


@each_config
def test_the_first_comment_says_the_purpose_and_the_exact_command(config: Path) -> None:
    lines = config.read_text().splitlines()
    comment = lines[: next(number for number, line in enumerate(lines) if not line.startswith("#"))]
    assert len(comment) >= 2
    assert len(comment[0]) > 20, "what it is for"
    assert f"assay run configs/{config.name}" in comment[1]


@each_config
def test_it_loads_as_the_job_it_writes_out(config: Path, tmp_path: Path) -> None:
    import json

    job = loaded(config)
    again = tmp_path / config.name
    again.write_text(json.dumps(job.resolved()))
    assert loaded(again).resolved() == job.resolved()


@checks
def test_it_passes_check(config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    need_packages(config)
    assert call(monkeypatch, "check", config) == 0
    assert capsys.readouterr().out.startswith(f"{config}: fine. ")


@runs
def test_it_runs_on_the_stand_in(config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need_packages(config)
    monkeypatch.setattr("assay.core.measure.side_by_side.measure", figures)  # its tests start the processes
    monkeypatch.chdir(tmp_path)
    if (ROOT / MADE).exists():
        (tmp_path / MADE).symlink_to(ROOT / MADE)
    assert call(monkeypatch, "run", config, "--tiny") == 0
    folder = tmp_path / "runs" / f"{config.stem}-tiny"
    found, job = collect(folder), loaded(config)
    assert read(folder / "run.json")["tiny"] is True
    assert job.variants.keys() <= {variant.name for variant in found.variants}
    for variant in found.variants:
        assert variant.state == "done", f"{variant.name}: {variant.error}"
        assert variant.metrics
        assert [probe.probe for probe in variant.probes] == sorted(name for name, _ in job.probes)
        assert all(probe.metrics or probe.skipped for probe in variant.probes)
        assert variant.measurement["size_bytes"] > 0
    assert (folder / "report.html").is_file()
