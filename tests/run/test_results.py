from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.manifest import write_json
from assay.run.results import drop_outdated, known_findings, read_result


def write_results(results: Path, variant: str, artifact_key: str, **keys: str | None) -> None:
    write_json(results / variant / "evaluation.json", {"artifact_key": artifact_key})
    for probe, key in keys.items():
        found = {"metrics": [], "details": {}, "skipped": None, "failed": None, "seconds": 1.0}
        write_json(results / variant / "probes" / f"{probe}.json", {"key": key, "variant": variant, **found})


def there(results: Path) -> list[str]:
    return sorted(path.relative_to(results).as_posix() for path in results.rglob("*.json"))


def test_findings_about_other_weights_and_of_other_probes_go(tmp_path: Path) -> None:
    write_results(tmp_path, "same", "k1", linear="a", typos="b")
    write_results(tmp_path, "retrained", "old", linear="c")
    write_results(tmp_path, "no longer in the job", "k3", linear="d")
    drop_outdated(tmp_path, {"same": "k1", "retrained": "new", "not made yet": "k4"}, ["linear"])
    assert there(tmp_path) == [
        "no longer in the job/evaluation.json",
        "no longer in the job/probes/linear.json",
        "same/evaluation.json",
        "same/probes/linear.json",
    ]


def test_findings_are_known_by_key_and_failed_ones_are_not(tmp_path: Path) -> None:
    write_results(tmp_path, "one", "k1", linear="a", typos=None)
    found = known_findings(tmp_path)
    assert list(found) == ["a"]
    assert found["a"] == {"metrics": [], "details": {}, "skipped": None, "failed": None, "seconds": 1.0}


@pytest.mark.parametrize("content", ['{"key": ', "[1]", "\udcff"])
def test_a_damaged_result_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert read_result(path) == {}
    assert read_result(tmp_path / "not there.json") == {}
