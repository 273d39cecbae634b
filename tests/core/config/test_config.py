from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from assay.core.config.job import Job
from assay.core.config.load import load_job, schema, tiny
from assay.core.errors import ConfigError
from assay.core.plugins import Shelf

STEP_FILES = {
    "train": """
class Train(Step):
    rate: float = Field(default=1e-3, gt=0, lt=1)
    epochs: int = Field(default=2, ge=1)
    layers: tuple[int, ...] = ()
    keep: int | list[int] | None = None
    by_layer: dict[int, list[int]] = {}

    def tiny(self) -> "Train":
        return self.model_copy(update={"epochs": 1})
""",
    "learn": """
class Learn(Step):
    uses_teacher: ClassVar[bool] = True
    temperature: float = Field(default=2.0, gt=0)
    rate: float = 1e-3
""",
    "cut": """
class Cut(Step):
    fraction: float = Field(ge=0, lt=1)
    scope: Literal["global", "layer"] = "global"

    @field_validator("fraction")
    @classmethod
    def not_a_third(cls, value: float) -> float:
        if value == 0.3:
            raise ValueError("a third is not a choice")
        return value
""",
    "export": 'class Export(Step):\n    gives: ClassVar[Any] = "onnx"\n    opset: int = 17\n',
    "shrink": 'class Shrink(Step):\n    takes: ClassVar[Any] = "onnx"\n    gives: ClassVar[Any] = "onnx"\n',
}
PROBE_FILES = {
    "look": "class Look(Probe):\n    samples: int = 200\n\n    def tiny(self):\n"
    '        return self.model_copy(update={"samples": 8})\n'
}
HEAD = """
from typing import Any, ClassVar, Literal
from pydantic import Field, field_validator
from {module} import {base}
"""
METHODS = "\n    def apply(self, source, out, ctx): return {}\n    def run(self, model, ctx): return None\n"
GOOD = """\
seed: 7
model: some/model
data:
  source: rows.csv
  max_length: 64
teacher:
  - train: {epochs: 3}
variants:
  graph: [export]
  half:
    - cut: {fraction: 0.5}
    - learn:
    - export: {}
    - shrink
probes:
  - look: {samples: 50}
"""


def _shelf(folder: Path, kind: str, base: str, files: dict[str, str]) -> Shelf:
    package = f"made_up_{kind}s"
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("")
    module, name = base.split(":")
    for file, text in files.items():
        (folder / package / f"{file}.py").write_text(HEAD.format(module=module, base=name) + text + METHODS)
    return Shelf(kind, package, base)


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shelf, Shelf]]:
    folder = tmp_path_factory.mktemp("methods")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        steps = _shelf(folder, "step", "compress.step:Step", STEP_FILES)
        yield steps, _shelf(folder, "probe", "probe.probe:Probe", PROBE_FILES)


class Loader:
    """Loads text as `job.yaml` with the made-up methods; addresses are not looked at."""

    def __init__(self, folder: Path, shelves: tuple[Shelf, Shelf]) -> None:
        self.path = folder / "job.yaml"
        self.shelves = shelves

    def __call__(self, text: str | bytes, *overrides: str, check_files: bool = False) -> Job:
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_job(self.path, list(overrides), *self.shelves, check_files=check_files)

    def problems(self, text: str | bytes, *overrides: str, check_files: bool = False) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self(text, *overrides, check_files=check_files)
        assert all("\n" not in problem for problem in caught.value.problems)
        return [problem.replace(f"{self.path}:", "") for problem in caught.value.problems]


@pytest.fixture
def load(tmp_path: Path, shelves: tuple[Shelf, Shelf]) -> Loader:
    return Loader(tmp_path, shelves)


def test_a_good_config_becomes_a_job_with_all_defaults(load: Loader) -> None:
    job = load(GOOD)
    assert (job.name, job.seed, job.task, job.model) == ("job", 7, "text-classification", "some/model")
    assert [(name, step.epochs, step.rate) for name, step in job.teacher] == [("train", 3, 1e-3)]
    assert {name: [step for step, _ in chain] for name, chain in job.variants.items()} == {
        "graph": ["export"],
        "half": ["cut", "learn", "export", "shrink"],
    }
    assert job.measure.model_dump() == {
        "batch_size": 1,
        "starts": 3,
        "throughput_batch_size": 8,
        "length": 128,
        "threads": 1,
        "rounds": 40,
        "warmup": 5,
    }


def test_resolved_is_json_and_loads_as_the_same_job(load: Loader, tmp_path: Path) -> None:
    extra = "  test_source: other.csv\n"
    job = load(GOOD.replace("  max_length: 64\n", "  max_length: 64\n" + extra))
    resolved = json.loads(json.dumps(job.resolved()))
    assert resolved["teacher"][0]["train"] == {"rate": 1e-3, "epochs": 3, "layers": [], "keep": None, "by_layer": {}}
    with load.path.open("w") as file:
        YAML().dump(resolved, file)
    assert load(load.path.read_text()) == job


def test_tiny_asks_every_step_and_probe(load: Loader) -> None:
    small = tiny(load(GOOD))
    assert small.teacher[0][1].epochs == 1
    assert small.probes[0][1].samples == 8
    assert small.measure.rounds == 3
    assert small.variants["half"][0][1].fraction == 0.5


@pytest.mark.parametrize("written", ["1e-5", "1E-5", "+1.0e-5", "0.00001"])
def test_a_number_with_an_exponent_is_a_number(load: Loader, written: str) -> None:
    job = load(GOOD.replace("{epochs: 3}", f"{{rate: {written}}}"))
    assert job.teacher[0][1].rate == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("rate: abc", "rate: 'abc' is not a number"),
        ("rate: .nan", "rate: .nan is not a finite number"),
        ("rate: -.inf", "rate: -.inf is not a finite number"),
        ("rate: 1.5", "rate: 1.5 is not less than 1"),
        ("rate: true", "rate: true is not a number"),
        ('epochs: "3"', "epochs: '3' is not a whole number"),
        ("epochs: 2.5", "epochs: 2.5 is not a whole number"),
        ("epochs: 0", "epochs: 0 is not at least 1"),
        ("epochs: ", "epochs: null is not a whole number"),
        ("layers: 3", "layers: 3 is not a list"),
        ("layers: [1, x]", "layers[1]: 'x' is not a whole number"),
        ("keep: x", "keep: 'x' is not a whole number, nor a list"),
        ("keep: [1, x]", "keep[1]: 'x' is not a whole number"),
        ("by_layer: {0: [1], 1: x}", "by_layer.1: 'x' is not a list"),
    ],
)
def test_a_wrong_value_is_refused_by_name(load: Loader, settings: str, problem: str) -> None:
    assert load.problems(GOOD.replace("epochs: 3", settings)) == [f"7: teacher[0].train.{problem}"]


def test_whole_numbers_lists_and_number_keys_are_taken_where_they_mean_the_same(load: Loader) -> None:
    step = load(GOOD.replace("epochs: 3", "layers: [0, 2], by_layer: {0: [1]}, keep: [1]")).teacher[0][1]
    assert (step.layers, step.by_layer, step.keep) == ((0, 2), {0: [1]}, [1])
    assert load(GOOD.replace("- learn:", "- learn: {temperature: 4}")).variants["half"][1][1].temperature == 4.0


def test_bounds_choices_and_own_checks_name_the_value(load: Loader) -> None:
    bad = GOOD.replace("fraction: 0.5", "fraction: 1.5, scope: layr")
    assert load.problems(bad) == [
        "11: variants.half[0].cut.fraction: 1.5 is not less than 1",
        "11: variants.half[0].cut.scope: 'layr' is not one of 'global' or 'layer'; did you mean 'layer'?",
    ]
    assert load.problems(GOOD.replace("0.5", "0.3")) == [
        "11: variants.half[0].cut.fraction: 0.3: a third is not a choice"
    ]
    assert load.problems(GOOD.replace("{fraction: 0.5}", "")) == ["11: variants.half[0].cut.fraction: is required"]


def test_a_misspelt_setting_gets_the_nearest_name(load: Loader) -> None:
    assert load.problems(GOOD.replace("- learn:", "- learn: {temprature: 4}")) == [
        "12: variants.half[1].learn.temprature: no setting 'temprature'; did you mean 'temperature'?"
    ]
    assert load.problems(GOOD.replace("epochs: 3", "temprature: 4")) == [
        "7: teacher[0].train.temprature: no setting 'temprature' here; did you mean 'temperature' of the step 'learn'?"
    ]
    assert load.problems(GOOD.replace("max_length", "max_lenth")) == [
        "5: data.max_lenth: no setting 'max_lenth'; did you mean 'max_length'?"
    ]
    assert load.problems(GOOD.replace("max_length: 64", "split: {tset: 5}")) == [
        "5: data.split.tset: no setting 'tset'; did you mean 'test'?"
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("seed: 7", "temperature: 4", "1: temperature: no setting 'temperature' here; it belongs to the step 'learn'"),
        (
            "max_length",
            "length",
            "5: data.length: no setting 'length' here; it belongs to 'measure'; did you mean 'max_length'?",
        ),
        ("seed: 7", "rounds: 4", "1: rounds: no setting 'rounds' here; it belongs to 'measure'"),
        ("epochs: 3", "seed: 4", "7: teacher[0].train.seed: no setting 'seed' here; it belongs to the top of the file"),
        ("seed: 7", "export: {}", "1: export: no setting 'export' here; it belongs to 'teacher' or a variant"),
        ("- train: {epochs: 3}", "- look", "7: teacher[0]: 'look' is a probe; list it in 'probes'"),
        ("- look: {samples: 50}", "- cut", "16: probes[0]: 'cut' is a step; list it in 'teacher' or a variant"),
    ],
)
def test_a_valid_name_in_the_wrong_place_is_told_where_it_belongs(
    load: Loader, old: str, new: str, problem: str
) -> None:
    assert load.problems(GOOD.replace(old, new)) == [problem]


def test_an_unknown_step_gets_the_nearest(load: Loader) -> None:
    assert load.problems(GOOD.replace("- cut:", "- cutt:")) == [
        "11: variants.half[0]: no step named 'cutt'; did you mean 'cut'?"
    ]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("- train:\n    epochs: 3", "one step an item, but this has train, epochs; indent epochs below 'train'"),
        ("- {train: {}, cut: {fraction: 0}}", "one step an item, but this has train, cut; give each its own '-'"),
        ("- 3", "3 is not a step; write `- name` or `- name: {settings}`"),
        ("- {}", "{} is not a step; write `- name` or `- name: {settings}`"),
    ],
)
def test_a_malformed_entry_says_how_to_write_it(load: Loader, entry: str, problem: str) -> None:
    assert load.problems(GOOD.replace("- train: {epochs: 3}", entry)) == [f"7: teacher[0]: {problem}"]


def test_settings_that_are_no_mapping(load: Loader) -> None:
    assert load.problems(GOOD.replace("{epochs: 3}", "3")) == ["7: teacher[0].train: 3 is not a mapping of settings"]


def test_every_problem_is_told_at_once_in_the_order_of_the_file(load: Loader) -> None:
    bad = GOOD.replace("seed: 7", "seed: -1").replace("epochs: 3", "epochs: x").replace("0.5", "2").replace("64", "a")
    lines = [int(problem.partition(":")[0]) for problem in load.problems(bad + "mesure: {}\n")]
    assert lines == [1, 5, 7, 11, 17]


def test_missing_sections_are_named(load: Loader) -> None:
    assert load.problems("seed: 1\n") == [
        "1: model: is required",
        "1: data: is required",
        "1: variants: is required",
    ]
    assert load.problems(GOOD.replace("  source: rows.csv\n", "")) == ["3: data.source: is required"]


def test_sections_left_empty_count_as_not_given(load: Loader) -> None:
    job = load(GOOD.replace("  - look: {samples: 50}\n", "  # - look\n"))
    assert job.probes == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1: the file is empty; a job needs at least model, data and variants"),
        ("# nothing\n", "1: the file is empty; a job needs at least model, data and variants"),
        ("- a\n- b\n", '1: ["a", "b"] is not a mapping of settings'),
        ("just words", "1: 'just words' is not a mapping of settings"),
        ("a: 1\nb: [1,\n", "3: not valid YAML: expected the node content, but found '<stream end>'"),
        ("a:\n\t- x\n", "2: not valid YAML: found character '\\t' that cannot start any token"),
        ("a: 1\n---\nb: 2\n", "2: not valid YAML: but found another document"),
        ("a: 1\nb: \x01\n", "2: not valid YAML: unacceptable character #x0001: special characters are not allowed"),
        (b"a: 1\nb: caf\xe9\n", "2: not UTF-8 text (byte 0xe9); save the file as UTF-8"),
    ],
    ids=["empty", "comment", "list", "text", "cut", "tab", "two", "control", "latin-1"],
)
def test_a_file_that_is_no_config_gives_one_line(load: Loader, text: str | bytes, problem: str) -> None:
    assert load.problems(text) == [problem]


def test_a_byte_order_mark_is_no_fault(load: Loader) -> None:
    assert load(b"\xef\xbb\xbf" + GOOD.encode()).seed == 7


def test_a_missing_file_gets_the_nearest_name(load: Loader, tmp_path: Path) -> None:
    load(GOOD)
    with pytest.raises(ConfigError, match=r"jib\.yaml: no such file; did you mean '.*job\.yaml'\?$"):
        load_job(tmp_path / "jib.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_job(tmp_path)


def test_a_duplicate_key_is_told_with_both_lines(load: Loader) -> None:
    assert load.problems("seed: 1\n" + GOOD) == ["2: seed: given twice, in line 1 and in line 2"]
    twice = GOOD.replace("{epochs: 3}", "{epochs: 3, epochs: 4}")
    assert load.problems(twice) == ["7: teacher[0].train.epochs: given twice, in line 7 and in line 7"]


def test_anchors_work_and_what_yaml_adds_beyond_data_does_not(load: Loader) -> None:
    shared = GOOD.replace("graph: [export]", "graph: &tail [export]\n  again: *tail")
    assert load(shared).variants["again"] == load(shared).variants["graph"]
    assert load.problems(GOOD.replace("epochs: 3", "keep: &x [*x]"))[0] == (
        "7: teacher[0].train.keep[0]: an alias that holds itself"
    )
    assert load.problems(GOOD.replace("seed: 7", "seed: !made 7"))[0] == (
        "1: seed: the tag !made is not known here; leave it out"
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[export]", "!made [export]", "9: variants.graph: the tag !made is not known"),
        ("{epochs: 3}", "!!set {epochs: 3}", "7: teacher[0].train: the tag tag:yaml.org,2002:set is not known"),
        ("[export]", "!!python/object:os.system [x]", "9: variants.graph: the tag tag:yaml.org,2002:python/object"),
        ("epochs: 3", "epochs: !!map 3", "7: teacher[0].train.epochs: the tag tag:yaml.org,2002:map is not known"),
        ("seed: 7", "!made seed: 7", "1: seed: the tag !made is not known"),
    ],
)
def test_a_tag_that_says_more_than_plain_data_is_refused(load: Loader, old: str, new: str, problem: str) -> None:
    assert load.problems(GOOD.replace(old, new))[0].startswith(problem)


def test_tags_of_plain_data_and_a_tag_on_the_whole_file(load: Loader) -> None:
    assert load("!!map\n" + GOOD.replace("[export]", "!!seq [!!str export]")) == load(GOOD)
    assert load.problems("!made text") == ["1: the tag !made is not known here; leave it out"]


def test_aliases_that_grow_out_of_bounds_and_endless_nesting_are_one_line(load: Loader) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"{two}: &{two} [{', '.join([f'*{one}'] * 9)}]\n" for one, two in pairwise("abcdefghij"))
    assert load.problems(bomb) == ["1: more than 100,000 values once its aliases are filled in"]
    for nested in ("[" * 500, "{a: " * 500, "- " * 500):
        assert load.problems(f"seed: 1\ndata:\n  {nested}") == ["3: nested deeper than 50 levels"]
    assert load.problems(GOOD, "seed=" + "[" * 3000) == [f"--set: seed: '{'[' * 56}... is nested deeper than 50 levels"]


def test_text_that_looks_like_a_switch_or_a_date_stays_text(load: Loader) -> None:
    settings = "where: {answer: yes, day: 2024-01-31}\n  labels: {0: no, 1: on}"
    job = load(GOOD.replace("max_length: 64", settings))
    assert job.data.where == {"answer": "yes", "day": "2024-01-31"}
    assert job.data.labels == {"0": "no", "1": "on"}


@pytest.mark.parametrize(
    ("chain", "problems"),
    [
        (
            "[cut: {fraction: 0}, shrink]",
            ["9: variants.graph[1]: shrink takes onnx but cut gives torch; add export before it"],
        ),
        ("[shrink]", ["9: variants.graph[0]: shrink takes onnx but the model gives torch; add export before it"]),
        (
            "[export, train]",
            [
                "9: variants.graph[1]: train takes torch but export gives onnx; nothing turns onnx into torch: "
                "move it up, to where the model is torch"
            ],
        ),
        ("[]", ["9: variants.graph: a variant needs at least one step"]),
        ("export", ["9: variants.graph: 'export' is not a list"]),
    ],
)
def test_steps_must_fit_together(load: Loader, chain: str, problems: list[str]) -> None:
    assert load.problems(GOOD.replace("[export]", chain)) == problems


def test_the_teacher_ends_in_torch_and_does_not_learn_from_itself(load: Loader) -> None:
    assert load.problems(GOOD.replace("- train: {epochs: 3}", "- learn\n  - export")) == [
        "7: teacher[0]: learn learns from the teacher, so it can only stand in a variant",
        "8: teacher[1]: the teacher must end in torch but export gives onnx; move it into the variants",
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("teacher", "'teacher' is the name of a baseline"),
        ("teacher_onnx", "'teacher_onnx' is the name of a baseline"),
        ("a/b", "'a/b' is not a variant name"),
        ("..", "'..' is not a variant name"),
        ("Half", "'half' and 'Half' differ only in case"),
        ("x" * 101, "a variant name of 101 characters; at most 100"),
    ],
)
def test_variant_names_can_be_folders(load: Loader, name: str, says: str) -> None:
    [problem] = load.problems(GOOD.replace("graph:", f"{name}:"))
    assert says in problem
    assert load(GOOD.replace("graph:", "v1.2-x_y:")).variants.keys() == {"v1.2-x_y", "half"}


def test_equal_variants_are_fine_and_a_probe_listed_twice_is_not(load: Loader) -> None:
    assert len(load(GOOD.replace("graph: [export]", "a: [export]\n  b: [export]")).variants) == 3
    assert load.problems(GOOD + "  - look\n") == ["17: probes[1]: look is listed twice; each probe runs once a job"]


def test_missing_model_and_tables_are_told_with_the_rest(load: Loader, tmp_path: Path) -> None:
    text = GOOD.replace("some/model", str(tmp_path)).replace("seed: 7", "seed: x")
    assert load.problems(text.replace("rows.csv", str(tmp_path / "rows.csv")), check_files=True) == [
        "1: seed: 'x' is not a whole number",
        f"4: data.source: {tmp_path / 'rows.csv'}: no such file or folder; available: job.yaml",
    ]
    on_hub = GOOD.replace("some/model", "hf:org/name").replace("rows.csv", "hf:org/rows")
    assert load(on_hub, check_files=True).model == "hf:org/name"


@pytest.mark.parametrize(
    ("override", "at"),
    [
        ("variants.half[0].cut.fraction=0.2", ("half", 0, "fraction", 0.2)),
        ("variants.half.0.cut.fraction=2e-1", ("half", 0, "fraction", 0.2)),
        ("variants.half[1].learn.temperature=5", ("half", 1, "temperature", 5.0)),
        ("variants.graph[0].export.opset=20", ("graph", 0, "opset", 20)),
    ],
    ids=["index", "dot", "empty-settings", "bare-name"],
)
def test_set_reaches_any_setting(load: Loader, override: str, at: tuple[str, int, str, Any]) -> None:
    variant, index, name, value = at
    assert getattr(load(GOOD, override).variants[variant][index][1], name) == value


def test_set_opens_sections_adds_variants_and_replaces_steps(load: Loader) -> None:
    job = load(GOOD, "measure.rounds=9", "variants.new=[export]", "teacher[0]={train: {rate: 1e-5}}", "seed=3")
    assert (job.measure.rounds, job.variants["new"][0][0], job.teacher[0][1].rate, job.seed) == (9, "export", 1e-5, 3)
    dotted = GOOD.replace("half:", "v1.2:")
    assert load(dotted, "variants.v1.2[0].cut.fraction=0.1").variants["v1.2"][0][1].fraction == 0.1


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("data.max_lenth=3", "data.max_lenth: no setting 'max_lenth'; did you mean 'max_length'?"),
        ("mesure.rounds=3", "mesure: no setting 'mesure'; did you mean 'measure'?"),
        ("seed=x", "seed: 'x' is not a whole number"),
        ("variants.half[0].cut.fraction=7", "variants.half[0].cut.fraction: 7 is not less than 1"),
        ("variants.hlf[0].cut.fraction=0.2", "variants.hlf: no variant named 'hlf'; did you mean 'half'?"),
        ("variants.half[7]=export", "variants.half: no item '7'; the list has 4, counted from 0"),
        (
            "variants.half[0].train.epochs=1",
            "variants.half[0]: this is 'cut', not 'train'; to replace it, set variants.half[0] as a whole",
        ),
        ("seed.x=1", "seed: 7 has no settings below it, so 'x' cannot be set"),
        ("seed", "'seed' is not of the form path=value"),
        ("seed=[", "seed: '[' is not valid YAML: expected the node content, but found '<stream end>'"),
    ],
)
def test_set_that_cannot_be_is_told_like_any_problem(load: Loader, override: str, problem: str) -> None:
    assert load.problems(GOOD, override) == [f"--set: {problem}"]


def test_faults_of_the_file_keep_their_line_beside_those_of_set(load: Loader) -> None:
    assert load.problems(GOOD.replace("seed: 7", "seed: x"), "data.max_length=0", "seed.y=1") == [
        "1: seed: 'x' is not a whole number",
        "--set: seed: 'x' has no settings below it, so 'y' cannot be set",
        "--set: data.max_length: 0 is not at least 3",
    ]


def test_schema_holds_every_method_with_its_bounds(shelves: tuple[Shelf, Shelf]) -> None:
    found = json.loads(json.dumps(schema(*shelves)))
    bare, mapping = found["$defs"]["step"]["anyOf"]
    assert set(bare["enum"]) == set(mapping["properties"]) == set(STEP_FILES)
    name = mapping["properties"]["cut"]["anyOf"][0]["$ref"].rpartition("/")[2]
    assert found["$defs"][name]["properties"]["fraction"] == {
        "exclusiveMaximum": 1,
        "minimum": 0,
        "title": "Fraction",
        "type": "number",
    }
    assert found["properties"]["variants"]["additionalProperties"]["items"] == {"$ref": "#/$defs/step"}
    assert found["properties"]["probes"]["items"] == {"$ref": "#/$defs/probe"}
    assert found["required"] == ["model", "data", "variants"]
    assert found["additionalProperties"] is False


def test_schema_agrees_with_the_loader(shelves: tuple[Shelf, Shelf]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(schema(*shelves))
    checker.check_schema(checker.schema)
    good = YAML(typ="safe").load(GOOD)
    assert list(checker.iter_errors(good)) == []
    for bad in (
        good | {"mesure": {}},
        good | {"variants": {"teacher": ["export"]}},
        good | {"variants": {"half": [{"cut": {"fraction": 2}}]}},
        good | {"probes": ["cut"]},
    ):
        assert list(checker.iter_errors(bad)) != []


def test_a_shipped_config_is_checked_without_torch() -> None:
    config = Path(__file__).parents[3] / "configs" / "quickstart.yaml"
    command = (
        "import sys\n"
        "from assay.core.config.load import load_job, schema\n"
        f"job = load_job({str(config)!r}, check_files=False)\n"
        "print(set(schema()['$defs']['step']['anyOf'][0]['enum']) >= {name for name, _ in job.teacher})\n"
        "print([name for name in ('torch', 'transformers', 'onnxruntime', 'sklearn', 'pandas') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout
    assert answer.splitlines() == ["True", "[]"]
