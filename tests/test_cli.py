"""The command as a user meets it: bad input ends with one clear line, the right exit code and nothing left behind."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from small_jobs import figures, read, write_job, write_rows
from tiny_models import write_tiny

from assay import cli
from assay.core.errors import AssayError
from compress.step import CHECKPOINT_SECONDS

COMMANDS = ("run", "check", "status", "compare", "report", "list", "doctor", "schema")
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 90868376\n"


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Assay = Callable[..., Said]


@pytest.fixture
def assay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Assay:
    """Run the command in this process, through the same entry point as from a shell; nothing is measured."""
    monkeypatch.setattr("assay.core.measure.side_by_side.measure", figures)
    monkeypatch.setattr(cli, "_quiet_libraries", lambda online: None)

    def call(*words: object) -> Said:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["assay", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        return Said(int(end.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a tiny model, a CSV and a config."""
    monkeypatch.chdir(tmp_path)
    write_tiny(tmp_path / "model")
    write_job(tmp_path / "job.yaml", Path("model"), data={"source": "job.csv"})
    return tmp_path


def process(*words: str, code: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "assay.cli"]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False)


# Bad input to `run` and `check`


def cut(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def set_config(home: Path, **values: object) -> None:
    path = home / "model" / "config.json"
    path.write_text(json.dumps(read(path) | values))


def set_rows(home: Path, text: str) -> None:
    (home / "job.csv").write_text(text)


BAD: dict[str, tuple[Callable[[Path], object], list[str], str]] = {
    "unknown setting": (
        lambda home: None, ["--set", "teacher[0].finetune.learning_rat=1"],
        r"assay: --set: teacher\[0\]\.finetune\.learning_rat: .*did you mean 'learning_rate'\?",
    ),
    "unknown step": (
        lambda home: (home / "job.yaml").write_text((home / "job.yaml").read_text().replace("export_onnx", "export")),
        [], r"assay: job\.yaml:\d+: variants\.onnx\[0\]: no step named 'export'",
    ),
    "text where a number belongs": (
        lambda home: None, ["--set", "seed=many"], r"assay: --set: seed: .*'many'",
    ),
    "no config": (lambda home: (home / "job.yaml").unlink(), [], r"assay: job\.yaml: no such file"),
    "empty config": (lambda home: (home / "job.yaml").write_text(""), [], r"assay: job\.yaml:1: the file is empty"),
    "no data file": (
        lambda home: (home / "job.csv").unlink(), [], r"assay: job\.yaml:\d+: data\.source: job\.csv: no such file",
    ),
    "empty data": (lambda home: set_rows(home, ""), [], r"assay: job\.csv: .*empty"),
    "data without rows": (lambda home: set_rows(home, "text,label\n"), [], r"assay: job\.csv: .*no rows"),
    "label not in the map": (
        lambda home: None, ["--set", "data.labels={pos: positive}"],
        r"assay: job\.csv: row 1: label 'neg' is none of the 1 classes of data\.labels; allowed: 'pos'",
    ),
    "one class only": (
        lambda home: None, ["--set", "data.where={label: pos}"],
        r"assay: job\.csv: all 40 rows are of class 'pos'; a classifier needs two",
    ),
    "no text column": (
        lambda home: None, ["--set", "data.text=sentence"], r"assay: job\.csv: .*'sentence'.*text, label",
    ),
    "empty label": (
        lambda home: set_rows(home, "text,label\nfine,pos\nodd,\n"), [],
        r"assay: job\.csv: row 2: column 'label' is empty",
    ),
    "no model": (
        lambda home: shutil.rmtree(home / "model"), [], r"assay: job\.yaml:\d+: model: model: no such file or folder",
    ),
    "model folder without weights": (
        lambda home: (home / "model" / "model.safetensors").unlink(), [], r"assay: model: no model\.safetensors",
    ),
    "cut weights": (
        lambda home: cut(home / "model" / "model.safetensors", 0.6), [],
        r"assay: model/model\.safetensors: \d+ bytes, cannot be read: probably truncated",
    ),
    "empty weights": (
        lambda home: cut(home / "model" / "model.safetensors", 0), [],
        r"assay: model/model\.safetensors: 0 bytes, cannot be read: the file is empty",
    ),
    "weights that are an LFS pointer": (
        lambda home: (home / "model" / "model.safetensors").write_bytes(LFS_POINTER), [],
        r"assay: model/model\.safetensors: \d+ bytes, cannot be read: this is a Git LFS pointer.*git lfs pull",
    ),
    "unknown family": (
        lambda home: (home / "model" / "config.json").write_text('{"model_type": "perceptron"}'), [],
        r"assay: model/config\.json: model type 'perceptron' has no anatomy here; known: albert, bart, bert, ",
    ),
    "a file for a model": (
        lambda home: None, ["--set", "model=job.csv"], r"assay: job\.csv: not a folder; a model is a folder with",
    ),
    "model type that is no text": (
        lambda home: (home / "model" / "config.json").write_text('{"model_type": ["bert"]}'), [],
        r"assay: model/config\.json: no model_type",
    ),
    "class names that are no text": (
        lambda home: (home / "model" / "config.json").write_text('{"model_type": "bert", "id2label": {"0": 1}}'), [],
        r"assay: model/config\.json: id2label must map positions to class names",
    ),
    "cut tokenizer": (
        lambda home: cut(home / "model" / "tokenizer.json", 0.5), [],
        r"assay: model/tokenizer\.json: \d+ bytes, cannot be read: probably truncated",
    ),
    "tokenizer that is JSON and no tokenizer": (
        lambda home: (home / "model" / "tokenizer.json").write_text("{}"), [],
        r"assay: model/tokenizer\.json: 2 bytes, cannot be read: ",
    ),
    "cut settings of the tokenizer": (
        lambda home: cut(home / "model" / "tokenizer_config.json", 0.5), [],
        r"assay: model/tokenizer_config\.json: \d+ bytes, cannot be read: probably truncated",
    ),
    "sizes that are none": (
        lambda home: set_config(home, num_attention_heads=0), [],
        r"assay: config\.json: num_attention_heads 0; sizes are whole numbers",
    ),
    "layers that are not there": (
        lambda home: None, ["--set", "variants.onnx[0]={prune_layers: {layers: [99]}}"],
        r"assay: --set: variants\.onnx\[0\]\.prune_layers\.layers: 99 is not among the layers present, 0-3$",
    ),
    "a label that is a list": (
        lambda home: (home / "job.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "b", "label": ["x", "y"]}\n'),
        ["--set", "data.source=job.jsonl"],
        r"assay: job\.jsonl: row 2: column 'label' holds \['x', 'y'\]; .*multi-label wants a 0/1 column a class$",
    ),
    "a device for a table": (
        lambda home: None, ["--set", "data.source=/dev/null"], r"assay: /dev/null: is a device, pipe or socket; a file",
    ),
    "a link to itself for a table": (
        lambda home: (home / "loop.csv").symlink_to("loop.csv"), ["--set", "data.source=loop.csv"],
        r"assay: --set: data\.source: loop\.csv: a symbolic link to loop\.csv, which leads nowhere$",
    ),
    "endless nesting": (
        lambda home: (home / "job.yaml").write_text("model: m\ndata: " + "[" * 300), [],
        r"assay: job\.yaml:2: nested deeper than 50 levels$",
    ),
    "model without tokenizer": (
        lambda home: (home / "model" / "tokenizer.json").unlink(), [], r"assay: model: no tokenizer; one of",
    ),
    "numbers as classes": (
        lambda home: set_rows(home, "text,label\n" + "".join(f"text {i},{i}.5\n" for i in range(30))), [],
        r"assay: .*too few of 30 rows for training \(30 classes, 30 different texts\); .*text-regression",
    ),
    "another model's classes and no training": (
        lambda home: None, ["--set", "teacher=[]", "--set", "data.labels={neg: bad, pos: good}"],
        r"assay: the model's classes are neg, pos, those of the data bad, good",
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("case", BAD, ids=str)
def test_bad_input_is_one_line_with_the_place_and_nothing_is_done(
    home: Path, assay: Assay, capsys: pytest.CaptureFixture[str], command: str, case: str
) -> None:
    spoil, options, line = BAD[case]
    spoil(home)
    said = assay(command, "job.yaml", *options)
    assert said.code == 2
    assert len(said.err.splitlines()) == 1, said.err
    assert re.match(line, said.err), said.err
    assert said.out == ""
    assert not (home / "runs").exists(), "nothing is left behind"


def test_all_mistakes_of_a_config_are_told_at_once(home: Path, assay: Assay) -> None:
    said = assay("check", "job.yaml", "--set", "seed=many", "--set", "task=poetry", "--set", "modle=x")
    assert said.code == 2
    assert len(said.err.splitlines()) == 3


def test_check_says_what_there_is_and_leaves_nothing(home: Path, assay: Assay) -> None:
    before = sorted(home.iterdir())
    said = assay("check", "job.yaml")
    assert (said.code, said.err) == (0, "")
    assert said.out == "job.yaml: fine. bert model, 48 training, 16 validation, 16 test rows, 1 variants\n"
    assert sorted(home.iterdir()) == before


def test_an_unknown_variant_gets_the_nearest(home: Path, assay: Assay) -> None:
    said = assay("run", "job.yaml", "--only", "onxn")
    assert (said.code, said.err) == (2, "assay: no variant named 'onxn'; did you mean 'onnx'?\n")
    assert not (home / "runs").exists()


def test_a_folder_that_cannot_be_written_is_one_line(home: Path, assay: Assay) -> None:
    said = assay("run", "job.yaml", "--out", home / "job.csv" / "run")
    assert said.code == 2
    assert said.err == f"assay: {home}/job.csv/run: cannot be a run folder (Not a directory); name another with --out\n"


def test_a_full_disk_is_one_line_with_the_path(home: Path, assay: Assay, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, data: Any) -> None:
        raise OSError(28, "No space left on device", str(folder / "train.parquet"))

    monkeypatch.setattr("assay.run.job.save_data", full)
    said = assay("run", "job.yaml")
    assert said.code == 1
    assert said.err.startswith("assay: runs/job/data/train.parquet: No space left on device; ")
    assert len(said.err.splitlines()) == 1


def test_a_mistake_of_ours_in_preparation_shows_its_traceback(
    home: Path, assay: Assay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.run.job.prepare_job", lambda job, folder=None: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        assay("run", "job.yaml")


@pytest.mark.parametrize("words", [["--checkpoint-seconds", "-1"], ["--chekpoint"], []])
def test_wrong_options_are_refused_with_the_usage(home: Path, assay: Assay, words: list[str]) -> None:
    said = assay("run", *(["job.yaml", *words] if words else []))
    assert said.code == 2
    assert "Usage: assay run" in said.err


# A run, and the commands that read it


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job of which one variant failed, and its run."""
    home = tmp_path_factory.mktemp("cli")
    write_tiny(home / "model")
    variants: dict[str, Any] = {"onnx": ["export_onnx"], "bad": [{"export_onnx": {"tolerance": 1e-12}}, "quantize"]}
    write_job(home / "job.yaml", home / "model", variants=variants, probes=["fidelity"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.core.measure.side_by_side.measure", figures)
        patch.setattr(cli, "_quiet_libraries", lambda online: None)
        patch.setattr(sys, "argv", ["assay", "run", str(home / "job.yaml"), "--out", str(home / "run")])
        with pytest.raises(SystemExit) as end:
            cli.main()
    assert end.value.code == 1
    return home


def test_a_failed_step_is_one_line_with_the_place_of_its_traceback_and_exit_code_1(
    finished: Path, assay: Assay
) -> None:
    said = assay("run", finished / "job.yaml", "--out", finished / "run")
    assert said.code == 1
    last = said.err.splitlines()[-1]
    assert re.match(
        r"failed: bad: the graph differs from finetune-.*, more than the tolerance 1e-12 .*traceback: ", last
    )
    told = Path(last.rpartition("(traceback: ")[2].rstrip(")"))
    assert told.name == "error.json"
    assert any("Traceback" in line for line in read(told)["traceback"])
    assert "Traceback" not in said.err
    assert "bad (failed)" in said.out
    assert f"report: {finished / 'run' / 'report.html'}" in said.out.splitlines()


def test_status_says_how_far_each_variant_is_and_why_one_failed(finished: Path, assay: Assay) -> None:
    said = assay("status", finished / "run")
    assert said.code == 0
    first, *variants, bad = said.out.splitlines()
    assert first.startswith("job: started 20")
    assert ", finished 20" in first
    assert variants == [
        "teacher: done (finetune done)",
        "onnx: done (finetune done, export_onnx done)",
    ]
    assert bad.startswith("bad: failed (finetune done, export_onnx failed, quantize waiting): the graph differs from ")


def test_status_of_an_unfinished_run_says_so_and_whether_someone_is_at_work(
    finished: Path, assay: Assay, tmp_path: Path
) -> None:
    from assay.run.lock import locked

    shutil.copytree(finished / "run", tmp_path / "run")
    record = read(tmp_path / "run" / "run.json") | {"finished": None}
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    assert "not finished; start the same command again" in assay("status", tmp_path / "run").out.splitlines()[0]
    with locked(tmp_path / "run"):
        assert "is at work" in assay("status", tmp_path / "run").out.splitlines()[0]


KEYS = (
    "variant", "format", "path", "size_bytes", "parameters", "nonzero_parameters", "latency_ms_p50", "latency_ms_p95",
    "throughput_per_s", "peak_rss_mib", "accuracy", "accuracy_low", "accuracy_high", "macro_f1", "macro_f1_low",
    "macro_f1_high", "label_loyalty",
)  # fmt: skip


def test_compare_as_json_is_a_list_with_the_stated_keys(finished: Path, assay: Assay) -> None:
    said = assay("compare", finished / "run", "--json")
    items = json.loads(said.out)
    assert (said.code, said.err) == (0, "")
    assert [item["variant"] for item in items] == ["teacher", "onnx", "bad"]
    assert {tuple(item)[: len(KEYS)] for item in items} == {KEYS}
    assert items[0]["accuracy_low"] <= items[0]["accuracy"] <= items[0]["accuracy_high"]
    assert items[2]["accuracy"] is None


def test_compare_as_csv_holds_the_same(finished: Path, assay: Assay) -> None:
    said = assay("compare", finished / "run", "--csv")
    lines = list(csv.DictReader(io.StringIO(said.out)))
    items = json.loads(assay("compare", finished / "run", "--json").out)
    assert [list(line) for line in lines] == [list(item) for item in items]
    assert float(lines[0]["accuracy"]) == items[0]["accuracy"]
    assert lines[2]["accuracy"] == ""


def test_compare_as_a_table_has_a_line_a_variant(finished: Path, assay: Assay) -> None:
    said = assay("compare", finished / "run")
    assert said.code == 0
    assert all(name in said.out for name in ("teacher", "onnx", "bad (failed)", "accuracy"))
    assert max(map(len, said.out.splitlines())) <= 160


def test_report_is_written_anew(finished: Path, assay: Assay) -> None:
    page = finished / "run" / "report.html"
    before = page.stat().st_mtime_ns
    said = assay("report", finished / "run")
    assert (said.code, said.out) == (0, f"report: {page}\n")
    assert page.stat().st_mtime_ns > before


@pytest.mark.parametrize("command", ["status", "compare", "report"])
def test_without_a_run_there_is_one_line(assay: Assay, tmp_path: Path, command: str) -> None:
    said = assay(command, tmp_path / "nowhere")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"assay: {tmp_path}/nowhere: no such run folder")
    (tmp_path / "empty").mkdir()
    said = assay(command, tmp_path / "empty")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"assay: {tmp_path}/empty: no run.json in it")
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("words", [["status"], ["compare"], ["report"], ["run", "job.yaml", "--out"]], ids=str)
def test_a_path_of_thousands_of_characters_is_one_line(home: Path, assay: Assay, words: list[str]) -> None:
    said = assay(*words, "a" * 5000)
    assert (said.code, said.out) == (2, "")
    assert re.match(r"assay: a+.*File name too long", said.err)
    assert len(said.err.splitlines()) == 1
    assert not (home / "runs").exists()


def test_a_path_that_gets_too_long_below_the_run_folder_is_one_line(home: Path, assay: Assay) -> None:
    folder = str(home)
    while len(folder) < 4080:  # a path may have 4,095 bytes: run.lock has room, what comes after has not
        folder += "/" + "a" * min(200, 4079 - len(folder))
    said = assay("run", "job.yaml", "--out", folder)
    assert said.code == 2
    assert re.search(r"^assay: .*File name too long; name a shorter path$", said.err.splitlines()[-1])


@pytest.mark.parametrize("command", ["status", "compare", "report"])
def test_a_run_that_has_just_begun_can_be_looked_at(
    home: Path, assay: Assay, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def interrupt(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("assay.core.train.train", interrupt)
        said = assay("run", "job.yaml")
    assert said.code == 130
    assert said.err.splitlines()[-1] == "assay: stopped; the same command goes on from here"
    said = assay(command, "runs/job")
    assert (said.code, said.err) == (0, "")
    assert command == "report" or "teacher" in said.out


# What there is


@pytest.mark.parametrize("kind", ["steps", "probes", "losses", "families"])
def test_list_tells_what_there_is(assay: Assay, kind: str) -> None:
    lines = assay("list", kind).out.splitlines()
    assert len(lines) >= 3
    assert all(name and len(text) > 10 for name, _, text in (line.partition(": ") for line in lines))


def test_list_gives_whole_sentences_and_no_more(assay: Assay) -> None:
    for kind in ("steps", "probes", "losses"):
        for line in assay("list", kind).out.splitlines():
            assert line.count("(") == line.count(")"), line
            assert line.count('"') % 2 == 0, line
            assert not line.endswith((".", ",", ":")), line


def test_the_package_is_the_command() -> None:
    said = subprocess.run([sys.executable, "-m", "assay", "list", "step"], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (2, "assay: nothing to list under 'step'; did you mean 'steps'?\n")


def test_list_finds_every_step(assay: Assay) -> None:
    names = [line.partition(":")[0] for line in assay("list", "steps").out.splitlines()]
    files = Path(cli.__file__).parent.parent.glob("compress/steps/[!_]*.py")
    assert names == sorted(path.stem for path in files)


def test_list_of_an_unknown_kind_names_the_nearest(assay: Assay) -> None:
    said = assay("list", "step")
    assert (said.code, said.err) == (2, "assay: nothing to list under 'step'; did you mean 'steps'?\n")


def test_schema_is_json(assay: Assay) -> None:
    assert json.loads(assay("schema").out)["$schema"].startswith("https://json-schema.org/")


def test_doctor_has_a_line_a_finding(assay: Assay) -> None:
    said = assay("doctor")
    assert all(line[:4].strip() in ("ok", "warn", "fail") for line in said.out.splitlines())
    assert said.code == (1 if "\nfail" in f"\n{said.out}" else 0)


@pytest.mark.parametrize("command", [*COMMANDS, "analyse", "analyse sensitivity"])
def test_every_command_has_help(assay: Assay, command: str) -> None:
    said = assay(*command.split(), "--help")
    assert said.code == 0
    assert f"Usage: assay {command}" in said.out


def test_these_are_all_commands() -> None:
    names = [command.name or command.callback.__name__ for command in cli.app.registered_commands if command.callback]
    assert tuple(names) == COMMANDS


def test_the_checkpoint_interval_has_one_default() -> None:
    assert cli.run.__defaults__ is not None
    assert CHECKPOINT_SECONDS in cli.run.__defaults__


def test_every_error_of_ours_ends_with_its_own_exit_code(assay: Assay, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: str) -> None:
        raise AssayError("it went wrong")

    monkeypatch.setattr("assay.core.listing.describe", fail)
    assert assay("list", "steps") == Said(1, "", "assay: it went wrong\n")


# From a shell: quick to answer, without the heavy libraries

HEAVY = "{'torch', 'transformers', 'sklearn', 'scipy', 'onnx', 'onnxruntime', 'pandas'}"
ASK = f"""
import sys, time
from assay.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("HEAVY", sorted({HEAVY} & set(sys.modules)), "CPU", time.process_time())
"""


@pytest.mark.parametrize(("words", "cpu_s"), [(["--help"], 1.5), (["run", "--help"], 1.5), (["list", "losses"], 2.0)])
def test_help_answers_at_once(words: list[str], cpu_s: float) -> None:
    said = process(*words, code=ASK)
    assert said.returncode == 0, said.stderr
    last = said.stdout.splitlines()[-1].split(" CPU ")
    assert last[0] == "HEAVY []"
    assert float(last[1]) < cpu_s, "CPU time, since other work on the machine is not its fault"


def test_ctrl_c_while_our_imports_are_read_is_one_line() -> None:
    code = """
import sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from assay.cli import main
"""
    said = process("--help", code=code)
    assert (said.returncode, said.stdout) == (130, "")
    assert said.stderr == "assay: stopped; the same command goes on from here\n"


def test_check_loads_no_model_library(home: Path) -> None:
    said = process("check", "job.yaml", code=ASK)
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[-1].startswith("HEAVY []")


def test_a_run_with_nothing_left_to_do_loads_no_torch(finished: Path, tmp_path: Path, assay: Assay) -> None:
    shutil.copytree(finished / "run", tmp_path / "run")
    write_rows(tmp_path / "job.csv")
    config = write_job(
        tmp_path / "job.yaml", finished / "model", variants={"onnx": ["export_onnx"]}, probes=["fidelity"]
    )
    assert assay("run", config, "--out", tmp_path / "run").code == 0
    said = process("run", str(config), "--out", str(tmp_path / "run"), code=ASK)
    assert said.returncode == 0, said.stderr
    heavy = said.stdout.splitlines()[-1]
    assert "torch" not in heavy
    assert "transformers" not in heavy
    assert "Traceback" not in said.stderr
