"""Files of labelled spans: what is read, and how a bad line is told of."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, SettingError
from probe.edge_targets import AskedTargets, Target, TargetSentence, baselines, numbered
from probe.probes.edges import EdgesProbe
from probe.span_files import is_span_file, read_spans, sides_of

TREES = str(Path(__file__).parent / "files" / "test.conllu")
TEXT = "The old  dog ran ."


def target(label: object, *spans: object) -> dict[str, object]:
    return {"label": label} | dict(zip(("span1", "span2"), spans, strict=False))


def line(*targets: Any, text: object = TEXT) -> str:
    return json.dumps({"text": text, "targets": targets, "info": {"source": "made up"}})


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines))
    return path


def test_spans_are_read_with_their_words_and_labels(tmp_path: Path) -> None:
    """Also a label in a list; blank lines and sentences without targets are passed over."""
    first = line(target("ARG0", [3, 4], [0, 3]), target(["V"], [0, 3], [3, 4]) | {"info": {"height": 1}})
    path = written(tmp_path / "a.jsonl", first, "", line(), line(target("V", [0, 1], [0, 1]), text="It rains"))
    assert read_spans(path) == [
        TargetSentence(
            ("The", "old", "dog", "ran", "."),
            (Target(((3, 4), (0, 3)), "ARG0", "ran"), Target(((0, 3), (3, 4)), "V", "the old dog")),
        ),
        TargetSentence(("It", "rains"), (Target(((0, 1), (0, 1)), "V", "it"),)),
    ]
    assert sides_of(read_spans(path)) == 2


def test_a_target_with_several_labels_is_left_out_and_counted(tmp_path: Path) -> None:
    several = target(["aware", "moved"], [0, 3])
    path = written(tmp_path / "a.json", line(several, target("NP", [0, 3]), several), line(several))
    assert [(len(each.targets), each.several_labels) for each in read_spans(path)] == [(1, 2), (0, 1)]
    with pytest.raises(InputError, match="no target with one label"):
        read_spans(written(tmp_path / "b.json", line(several)))


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "holds list, not an object"),
        (line(text=" "), "no text in text"),
        (line(text=7), "no text in text"),
        (json.dumps({"text": TEXT}), "targets is no list of objects"),
        (line("NP"), "targets is no list of objects"),
        (line(target("NP", [0, 1]), target("NP", [4, 6])), "targets[1].span1 is [4, 6], not within the text; it is"),
        (line(target("NP", [-1, 2])), "targets[0].span1 is [-1, 2], not within the text"),
        (line(target("NP", [2, 1])), "not within the text"),
        (line(target("NP", [5, 6])), "[start, end) in the 5 words of the text"),
        (line(target("NP", [2, 2])), "targets[0].span1 is [2, 2], which is empty"),
        (line(target("NP", [0, True])), "not two whole numbers"),
        (line(target("NP", [0, 1.0])), "not two whole numbers"),
        (line(target("NP")), "targets[0].span1 is None, not two whole numbers"),
        (line(target("NP", [0, 1], [1, 9])), "targets[0].span2 is [1, 9], not within the text"),
        (line(target("NP", [0, 1], [1, 2])), "targets[0] has span2, those before have none; give it to all"),
        (line(target(None, [0, 1])), "targets[0].label is None; it must be text"),
        (line(target(" ", [0, 1])), "targets[0].label is ' '"),
        (line(target([], [0, 1])), "targets[0].label is []"),
        (line(target(["NP", 3], [0, 1])), "targets[0].label is ['NP', 3]"),
    ],
)
def test_a_malformed_line_is_told_with_its_number(tmp_path: Path, bad: str, told: str) -> None:
    path = written(tmp_path / "a.jsonl", line(target("NP", [0, 3])), "", bad)
    with pytest.raises(InputError) as caught:
        read_spans(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pair_that_lacks_its_second_span_and_a_file_without_targets_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", line(target("A", [0, 1], [1, 2]), target("A", [0, 1]) | {"span2": None}))
    with pytest.raises(InputError, match=r"a\.jsonl:1: targets\[1\] has no span2, those before have one"):
        read_spans(path)
    with pytest.raises(InputError, match="no target"):
        read_spans(written(tmp_path / "none.jsonl", line()))


def test_two_files_must_be_of_a_kind(tmp_path: Path) -> None:
    one = str(written(tmp_path / "one.jsonl", line(target("NP", [0, 3]))))
    two = str(written(tmp_path / "two.json", line(target("NP", [0, 3], [3, 4]))))
    assert [is_span_file(each) for each in (one, two, TREES, "silver")] == [True, True, False, False]
    EdgesProbe(train=one, test=one).check()
    EdgesProbe(train=TREES, test=TREES).check()
    for train, test, told in (
        (one, TREES, f"{TREES} is no JSONL of spans, edges.train is {one}"),
        ("silver", one, f"{one} is JSONL of spans, edges.train is silver"),
        (one, two, f"{two} has 2 spans a target, edges.train 1"),
    ):
        with pytest.raises(SettingError) as caught:
            EdgesProbe(train=train, test=test).check()
        assert caught.value.setting == "edges.test"
        assert told in str(caught.value)
        assert "two of a kind" in str(caught.value)


def spans_as(*types_and_labels: tuple[str, str]) -> AskedTargets:
    """One sentence; its targets are all of its first two words."""
    targets = tuple(Target(((0, 2),), label, of) for of, label in types_and_labels)
    return AskedTargets.of([TargetSentence(("a", "b"), targets)], [[[1], [2]]])


def test_the_control_gives_a_type_of_span_one_label_and_the_baseline_its_commonest() -> None:
    train = spans_as(*[(f"span {at}", "ab"[at % 2]) for at in range(40)] * 2)
    (own,) = numbered(train, train.every, ["a", "b"], seed=3)
    assert own.spans == [(0, 2)]
    assert own.ends.tolist() == [[0] * 80]
    assert own.control[:40].tolist() == own.control[40:].tolist()
    assert set(own.control.tolist()) == {0, 1}
    assert own.control[:40].tolist() != own.labels[:40].tolist()
    test = spans_as(("span 1", "b"), ("span 2", "b"), ("unseen", "a"), ("unseen", "c"))
    assert baselines(train.every, test.every) == {"majority": 0.25, "most_frequent_relation": 0.5}
    assert numbered(test, train.every, ["a", "b"], seed=3)[0].labels.tolist() == [1, 1, 0, -1]


def test_a_target_counts_where_all_its_words_are_whole() -> None:
    """The third word is not. A span of several targets is there once."""
    targets = tuple(Target((span, (0, 1)), "a", "") for span in ((0, 2), (1, 3), (3, 4), (0, 4)))
    asked = AskedTargets.of([TargetSentence(("a", "b", "c", "d"), targets)], [[[1], [2, 3], [], [4]]])
    assert asked.whole == [[True, False, True, False]]
    assert asked.every == [targets[0], targets[2]]
    assert asked.left_out == 2
    (own,) = numbered(asked, asked.every, ["a"], seed=1)
    assert own.spans == [(0, 2), (0, 1), (3, 4)]
    assert own.ends.tolist() == [[0, 2], [1, 1]]
