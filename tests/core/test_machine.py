from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from assay.core import machine
from assay.core.cpu import bf16_note, flags_in, int8_note
from assay.core.machine import Finding, describe_machine, doctor, package_versions
from assay.core.model import generations

LINUX_VNNI = "model name\t: Some CPU\nflags\t\t: fpu avx2 avx512f avx512_vnni amx_int8 amx_bf16\nbugs\t\t: none\n"
LINUX_OLD = "model name\t: Some CPU\nflags\t\t: fpu sse4_2 avx2\n"
LINUX_ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp bf16\n"
APPLE_ARM = "hw.optional.arm.FEAT_DotProd: 1\nhw.optional.arm.FEAT_I8MM: 0\nhw.optional.neon: 1\nmachdep.cpu.cores: 8\n"
APPLE_X86 = "machdep.cpu.features: FPU SSE4.2\nmachdep.cpu.leaf7_features: AVX2 AVX512F AVX512VNNI\n"


def _on(flags: dict[str, bool]) -> set[str]:
    return {flag for flag, there in flags.items() if there}


@pytest.mark.parametrize(
    ("text", "architecture", "expected"),
    [
        (LINUX_VNNI, "x86_64", {"avx2", "avx512f", "avx512_vnni", "amx_int8", "amx_bf16"}),
        (LINUX_OLD, "x86_64", {"avx2"}),
        (LINUX_ARM, "aarch64", {"neon", "dotprod", "bf16"}),
        (APPLE_ARM, "arm64", {"neon", "dotprod"}),
        (APPLE_X86, "x86_64", {"avx2", "avx512f", "avx512_vnni"}),
    ],
    ids=["linux-vnni", "linux-old", "linux-arm", "apple-arm", "apple-x86"],
)
def test_flags_have_one_spelling_on_every_system(text: str, architecture: str, expected: set[str]) -> None:
    assert _on(flags_in(text, architecture)) == expected


def test_absent_flags_are_false_and_an_unreadable_list_is_empty() -> None:
    assert flags_in(LINUX_OLD, "x86_64")["avx512_vnni"] is False
    assert flags_in("", "AMD64") == {}


@pytest.mark.parametrize(
    ("text", "architecture", "says"),
    [
        (LINUX_VNNI, "x86_64", "exactly in 32 bits"),
        (LINUX_OLD, "x86_64", "saturates silently.*7-bit weights"),
        (LINUX_ARM, "aarch64", "exactly in 32 bits"),
        ("Features\t: fp asimd\n", "aarch64", "no integer dot product"),
        ("", "AMD64", "cannot be read here.*7-bit weights"),
    ],
    ids=["vnni", "avx2-only", "dotprod", "neon-only", "unknown"],
)
def test_int8_note_tells_exact_from_saturating(text: str, architecture: str, says: str) -> None:
    assert re.search(says, int8_note(flags_in(text, architecture)))


def test_seven_bits_are_what_makes_the_16_bit_sum_exact() -> None:
    """The reason behind the note: two products of u8 activations with s8 weights, added in int16."""
    assert 2 * 255 * 127 > 2**15 - 1
    assert 2 * 255 * 64 <= 2**15 - 1


def test_bf16_note_follows_the_flags() -> None:
    assert "faster than in float32" in bf16_note(flags_in(LINUX_VNNI, "x86_64"))
    assert "emulated" in bf16_note(flags_in(LINUX_OLD, "x86_64"))


def test_machine_is_json_and_the_same_at_every_call() -> None:
    facts = describe_machine()
    assert set(facts) == {"cpu", "cores", "threads", "memory_gib", "platform", "python", "flags"}
    assert json.loads(json.dumps(facts)) == facts == describe_machine()


def test_an_unknown_system_degrades(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Plan9")
    monkeypatch.setattr("platform.processor", lambda: "")
    assert describe_machine()["cpu"] == "unknown"
    assert describe_machine()["flags"] == {}
    assert "features unknown" in _finding("cpu").text


_distributions = cache(importlib.metadata.packages_distributions)


@pytest.fixture(autouse=True)
def _owners_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lists the files of all that is installed: most of what `doctor` costs."""
    monkeypatch.setattr("importlib.metadata.packages_distributions", _distributions)


def test_versions_are_those_installed_and_leave_out_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PACKAGES", ("torch", "no-such-package"))
    assert package_versions() == {"torch": importlib.metadata.version("torch")}


def _finding(name: str) -> Finding:
    return next(finding for finding in doctor() if finding.name == name)


def test_doctor_is_content_with_the_environment_of_the_tests() -> None:
    assert [finding for finding in doctor() if finding.state == "fail" and finding.name != "disk"] == []


@pytest.mark.parametrize(
    ("requirement", "says"),
    [("numpy<1", "is not <1; pip install 'numpy<1'"), ("no-such-package>=2", "not installed")],
)
def test_doctor_fails_packages_outside_their_range(
    monkeypatch: pytest.MonkeyPatch, requirement: str, says: str
) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda name: [requirement, "never-asked; extra == 'dev'"])
    finding = _finding(Requirement(requirement).name)
    assert finding.state == "fail"
    assert says in finding.text
    assert all(other.name != "never-asked" for other in doctor())


@pytest.mark.parametrize(
    ("versions", "state", "says"),
    [
        (
            {"optimum": "2.1.0", "optimum-onnx": "0.1.0", "transformers": "4.57.6"},
            "ok",
            "optimum 2.1.0 with optimum-onnx",
        ),
        ({"transformers": "5.24.0"}, "ok", "torch 2.13.0; optimum and optimum-onnx not installed; pip install 'assay"),
        (
            {"optimum": "2.1.0", "optimum-onnx": "0.1.0", "transformers": "5.24.0"},
            "warn",
            "optimum-onnx 0.1.0 needs transformers<4.58, 5.24.0 is installed; pip install 'transformers>=4.57.6,<4.58'",
        ),
    ],
    ids=["4.57", "5", "conflict"],
)
def test_doctor_says_which_set_is_in_use_and_what_does_not_go_together(
    versions: dict[str, str], state: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = versions | {"torch": "2.13.0"}
    for module in (machine, generations):
        monkeypatch.setattr(module, "version_of", installed.get)
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["transformers<4.58"] if "onnx" in name else [])
    found = _finding("exporter")
    assert (found.state, says in found.text) == (state, True), found
    assert _finding("transformers").text.startswith(versions["transformers"])


def test_doctor_names_another_owner_of_an_import_name(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {name: ["assay"] for name in machine.IMPORT_NAMES} | {"probe": ["assay", "ultrasound"]}
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: owners)
    assert _finding("probe").state == "fail"
    assert "'probe' belongs to ultrasound too" in _finding("probe").text
    assert _finding("reports").state == "ok"


def test_doctor_sees_a_folder_in_the_way(tmp_path: Path) -> None:
    """Control: the same command from an empty folder is content."""
    command = "from assay.core.machine import doctor; print([f.text for f in doctor() if f.name == 'reports'][0])"

    def ask() -> str:
        return subprocess.run(
            [sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    assert "from assay" in ask()
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("")
    assert f"import reports takes {tmp_path / 'reports'}" in ask()


@pytest.mark.parametrize(("free_gib", "state"), [(0.5, "fail"), (5, "warn"), (50, "ok")])
def test_doctor_weighs_free_disk(monkeypatch: pytest.MonkeyPatch, free_gib: float, state: str) -> None:
    usage = type("Usage", (), {"free": free_gib * 2**30})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    assert _finding("disk").state == state


def test_doctor_warns_of_more_threads_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "9999")
    assert _finding("threads").state == "warn"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert _finding("threads").state == "ok"


def test_doctor_warns_of_a_cuda_build(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _finding("torch build").state == "ok"
    distribution = type("Distribution", (), {"metadata": {"Name": "nvidia-cudnn-cu13"}})
    monkeypatch.setattr("importlib.metadata.distributions", lambda **_: [distribution])
    monkeypatch.setattr("importlib.metadata.packages_distributions", dict)
    assert _finding("torch build").state == "warn"


def test_doctor_imports_no_torch() -> None:
    command = "import sys; from assay.core.machine import doctor; doctor(); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout
    assert answer.strip() == "False"
