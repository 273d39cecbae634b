"""The scripts behind the figures of the documentation: they start, and what they make is what they say."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from probe.language.facts import Fact

SCRIPTS = sorted((Path(__file__).parent.parent / "docs" / "measure").glob("*.py"))


def load(name: str) -> ModuleType:
    path = next(path for path in SCRIPTS if path.stem == name)
    spec = importlib.util.spec_from_file_location(f"measure_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS])
def test_every_script_starts_and_says_how_it_is_called(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "image_inputs":
        pytest.importorskip("PIL")
    script = load(name)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as end:
        script.main()
    assert end.value.code == 0
    assert f"usage: {name}.py" in capsys.readouterr().out
    assert f"python docs/measure/{name}.py" in (script.__doc__ or "")


def test_wrong_pairs_have_the_words_of_true_ones_and_are_never_true(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load("language_figures")
    facts = [Fact("capitals", f"land {at}", f"town {at}", ()) for at in range(6)]
    monkeypatch.setattr(script, "capitals", lambda: facts)
    triples = script.true_and_wrong(13)
    pairs = {
        label: [(each["head"], each["tail"]) for each in triples if each["label"] is label] for label in (True, False)
    }
    assert pairs[True] == [(fact.subject, fact.answer) for fact in facts]
    assert not set(pairs[True]) & set(pairs[False])
    for side in (0, 1):
        assert sorted(pair[side] for pair in pairs[False]) == sorted(pair[side] for pair in pairs[True])
    assert script.true_and_wrong(13) == triples != script.true_and_wrong(14)


def test_settings_go_to_the_probes_that_have_them() -> None:
    script = load("probe_figures")
    given = dict(map(script.setting, ("samples=7", "baseline=zero", "flow_samples=0")))
    assert given == {"samples": 7, "baseline": "zero", "flow_samples": 0}
    probe = script.with_settings(script.PROBES.get("attribution"), given)
    assert (probe.samples, probe.baseline, probe.steps) == (7, "zero", 20)
