"""Trees without training on models: the impact of words equals that of changing one text at a time, and each way stands
beside its baselines and its teacher."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_models import WordReader, context, split
from planted_trees import TREE
from tiny_models import write_tiny
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from assay.core.artifact import open_source
from assay.core.errors import NotGiven
from assay.core.model.predict import TorchPredictor
from probe.induction.impact import TokenizedWords, impact_by_deletion, impact_by_masking, mask_of
from probe.probe import Findings, ProbeContext
from probe.probes.trees import TreesProbe

TRAIN = Path(__file__).parent / "files" / "train.conllu"
SETTINGS = {"treebank": str(TRAIN), "sentences": 3, "most_words": 6}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TorchPredictor:
    folder = tmp_path_factory.mktemp("tiny") / "bert"
    write_tiny(folder, layers=2)
    return TorchPredictor(open_source(folder, "text-classification"), 32)


TEXT = "the film was storytelling"


@pytest.fixture(scope="module")
def words(tiny: TorchPredictor) -> TokenizedWords:
    (ids,) = tiny.encoder.ids([TEXT])
    assert len(ids) > 6  # the last word has several pieces
    return TokenizedWords(ids, [[1], [2], [3], list(range(4, len(ids) - 1))])


def last_states(tiny: TorchPredictor, ids: list[int]) -> torch.Tensor:
    """[tokens, width], of one text, read as transformers reads it."""
    model = AutoModelForSequenceClassification.from_pretrained(tiny.artifact.path).eval()
    with torch.no_grad():
        return model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0]


def test_masking_in_batches_equals_one_text_at_a_time(tiny: TorchPredictor, words: TokenizedWords) -> None:
    mask = AutoTokenizer.from_pretrained(tiny.artifact.path).mask_token_id
    impact = impact_by_masking(tiny, words)
    assert (impact.diagonal() == 0).all()
    for i, j in ((0, 3), (3, 0), (2, 1)):
        once, twice = list(words.ids), list(words.ids)
        for at in words.words[i]:
            once[at] = twice[at] = mask
        for at in words.words[j]:
            twice[at] = mask
        change = last_states(tiny, once)[words.words[i]].mean(0) - last_states(tiny, twice)[words.words[i]].mean(0)
        assert impact[i, j] == pytest.approx(float(change.norm()), rel=1e-4)
    assert impact[0, 3] != pytest.approx(impact[3, 0], rel=0.01)


def test_deletion_in_batches_equals_one_text_at_a_time(tiny: TorchPredictor, words: TokenizedWords) -> None:
    impact = impact_by_deletion(tiny, words)
    whole = last_states(tiny, words.ids)
    for i, j, moved in ((0, 1, 1), (2, 1, 2), (2, 3, 3)):  # word i stands at token `moved` when j is gone
        left = last_states(tiny, [known for at, known in enumerate(words.ids) if at not in words.words[j]])
        (before,) = words.words[i]
        assert impact[i, j] == pytest.approx(float((left[moved] - whole[before]).norm()), rel=1e-4)
    assert (impact.diagonal() == 0).all()


def about(model: TorchPredictor, teacher: TorchPredictor | None = None) -> ProbeContext:
    return context(split(["a row"]), teacher=teacher or model)


@pytest.fixture(scope="module")
def found(tiny: TorchPredictor) -> Findings:
    return TreesProbe(**SETTINGS).run(tiny, about(tiny))  # type: ignore[arg-type]


def test_every_way_stands_beside_its_baselines(found: Findings) -> None:
    masking, deletion, distances = found.details["tasks"]
    assert [task["task"] for task in found.details["tasks"]] == ["masking", "deletion", "distances"]
    assert masking["edges"] == deletion["edges"] > 6
    assert masking["baselines"] == deletion["baselines"]
    assert masking["trees"] != deletion["trees"]
    assert masking["change"] is None
    curves = {(each["measure"], each["layer"], each["head"]) for each in distances["curves"]}
    assert len(curves) == 2 * 3 + 2 * 2 * (4 + 1)  # states of three layers; two layers of four heads and their means
    assert distances["best"]["f1"] == max(each["f1"] for each in distances["curves"])
    values = {metric.name: metric.value for metric in found.metrics}
    assert values["distances_f1"] <= values["distances_most_f1"] <= 1
    assert values["masking_uas"] <= values["masking_uuas"]
    assert not any(name.endswith("change") for name in values)


def test_a_variant_is_compared_with_the_teacher_on_the_same_sentences(tiny: TorchPredictor, found: Findings) -> None:
    """The same weights under another key differ by nothing."""
    twin = TorchPredictor(replace(tiny.artifact, key="twin"), 32)
    changes = TreesProbe(**SETTINGS).run(twin, about(twin, tiny)).details["tasks"]  # type: ignore[arg-type]
    for task, own in zip(changes, found.details["tasks"], strict=True):
        assert (task["change"]["change"], task["change"]["low"], task["change"]["high"]) == (0, 0, 0)
        assert task["change"]["n"] == own.get("edges", own["sentences"])


def test_attention_without_a_graph_and_planted_states_give_the_planted_phrases(tmp_path: Path) -> None:
    """States are places on a line, far apart where the tree is split; a graph gives no attention."""
    path = tmp_path / "planted.conllu"
    columns = zip(TREE.words, TREE.upos, TREE.heads, strict=True)
    block = [f"{n}\t{w}\t_\t{u}\t_\t_\t{(h or 0) + 1}\tdep\t_\t_" for n, (w, u, h) in enumerate(columns, 1)]
    path.write_text("\n".join([*block, ""] * 3))
    line = np.cumsum([0, 1, 0.1, 3, 2, 0.1, 9.0])
    model = WordReader(lambda words: [line[::-1, None].copy(), line[:, None] * [[1, 0]]], (4,))
    model.artifact = replace(model.artifact, format="onnx")
    probe = TreesProbe(treebank=str(path), ways=["distances"])
    (task,) = probe.run(model, context(split(["a row"]), teacher=model)).details["tasks"]
    assert (task["best"]["measure"], task["best"]["layer"], task["attention"]) == ("euclidean", 5, False)
    assert task["best"]["f1"] == task["baselines"]["most"]
    assert task["sentences"] == 3


def test_a_model_without_a_mask_token_says_so_and_is_read_by_the_other_ways(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("causal") / "gpt2"
    write_tiny(folder, "gpt2", layers=2)
    model = TorchPredictor(open_source(folder, "text-classification"), 32)
    with pytest.raises(NotGiven, match="gpt2: its tokenizer has no mask token, which perturbed masking needs"):
        mask_of(model)
    settings = SETTINGS | {"sentences": 1}
    masking, deletion, distances = TreesProbe(**settings).run(model, about(model)).details["tasks"]  # type: ignore[arg-type]
    assert "no mask token" in masking["skipped"]
    assert deletion["skipped"] is distances["skipped"] is None
    alone = TreesProbe(**settings, ways=["masking"]).run(model, about(model))  # type: ignore[arg-type]
    assert "no mask token" in str(alone.skipped)


def test_what_a_causal_model_read_before_a_deleted_word_does_not_move(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("deleted") / "gpt2"
    write_tiny(folder, "gpt2", layers=2)
    model = TorchPredictor(open_source(folder, "text-classification"), 32)
    impact = impact_by_deletion(model, TokenizedWords([5, 6, 7, 8], [[0], [1], [2], [3]]))
    assert np.triu(impact, 1) == pytest.approx(0, abs=1e-5)
    assert (impact[np.tril_indices(4, -1)] > 1e-3).all()
