"""The probe on models whose states are planted, and on tiny real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_models import Classifier, Reader, context, split
from tiny_jobs import carry_out

from assay.core.artifact import Artifact
from assay.core.errors import AssayError, NotGiven
from assay.core.model.predict import StateBatch, open_predictor
from probe.layer_vectors import first_of_each, layer_vectors, original_ids
from probe.probe import Findings
from probe.probes.similarity import SimilarityProbe
from probe.similarity.readings import chosen_layers

WORDS = ["the", "film", "was", "a", "great", "story", "with", "good", "acting", "and", "dull", "music", "slow", "plot"]
CHANCE = torch.Generator().manual_seed(8)
WIDTH = 6


def text(number: int) -> str:
    """Two to nine words, no two texts the same."""
    length = 2 + number % 8
    return " ".join(f"w{number}x{at}" for at in range(length))


TEXTS = [text(number) for number in range(150)]
TURN = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=CHANCE)).Q
FIXED = torch.arange(1.0, WIDTH + 1)


@cache
def vector_of(word: str, layer: int) -> torch.Tensor:
    """A state that depends on the word and the layer, with directions of unlike size."""
    return torch.randn(WIDTH, generator=torch.Generator().manual_seed(hash_of(word) + 1000 * layer)) * FIXED


def hash_of(word: str) -> int:
    return sum(ord(letter) * 31**at for at, letter in enumerate(word)) % 99_991


class Planted(Reader):
    """A reader whose every token has a state of its own, mapped by `change(states, layer)`; [CLS] and [SEP] have states
    a hundred times as long. `known` gives each word an id."""

    def __init__(
        self,
        layers: tuple[int, ...] = (0, 1, 2),
        change: Callable[[torch.Tensor, int], torch.Tensor] = lambda states, layer: states,
        known: Callable[[str], int] = hash_of,
        **more: Any,
    ) -> None:
        super().__init__(layers=layers, **more)
        self.change, self.known = change, known

    def _hidden(self, texts: list[str], spots: list[slice], width: int) -> list[torch.Tensor]:
        return [self._layer(texts, spots, width, number) for number in (0, *(layer + 1 for layer in self.layers))]

    def _layer(self, texts: list[str], spots: list[slice], width: int, number: int) -> torch.Tensor:
        states = []
        for words, spot in zip(texts, spots, strict=True):
            each = [100 * FIXED, *(vector_of(word, number) for word in words.split()), -100 * FIXED]
            mapped = self.change(torch.stack(each), number)
            row = torch.full((width, mapped.shape[1]), torch.nan)
            row[spot] = mapped
            states.append(row)
        return torch.stack(states)

    def states(self, texts: Sequence[str], batch_size: int = 32, attentions: bool = False) -> Iterator[StateBatch]:
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # as real models do
        for batch in super().states([texts[row] for row in order], 16, attentions):
            rows = [order[row] for row in batch.rows]
            ids = torch.zeros_like(batch.input_ids)
            for at, row in enumerate(rows):
                ids[at][batch.mask[at]] = torch.tensor([1, *(self.known(word) for word in texts[row].split()), 2])
            yield replace(batch, rows=rows, input_ids=ids)


def run(model: Any, teacher: Any = None, texts: list[str] = TEXTS, **settings: Any) -> Findings:
    return SimilarityProbe(**settings).run(model, context(split(texts), teacher=teacher or Planted()))


def headline(findings: Findings) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in findings.metrics}


def comparison(findings: Findings, kind: str) -> dict[str, Any]:
    return next(each for each in findings.details["comparisons"] if each["vectors"] == kind)


def test_the_teacher_is_itself_and_its_layers_are_unlike_each_other() -> None:
    teacher = Planted()
    found = run(teacher, teacher)
    told = headline(found)
    for name in ("cka", "svcca", "rsa"):
        assert told[f"{name}_last_layer"] == pytest.approx(1, abs=1e-4)
    assert told["cka_mean_same_layer"] == pytest.approx(1, abs=1e-4)
    assert told["procrustes_last_layer"] == pytest.approx(0, abs=1e-4)
    for kind in ("texts", "tokens"):
        cka = torch.tensor(comparison(found, kind)["cka"])
        torch.testing.assert_close(cka, cka.T, atol=1e-4, rtol=0)
        assert cka.fill_diagonal_(0).abs().max() < 0.2
    assert json.loads(json.dumps(found.details, allow_nan=False)) == found.details


def test_a_rotated_and_scaled_model_is_the_same_and_one_of_other_states_is_not() -> None:
    turned = headline(run(Planted(change=lambda states, layer: 5 * states @ TURN)))
    assert turned["cka_last_layer"] == pytest.approx(1, abs=1e-3)
    assert turned["svcca_last_layer"] == pytest.approx(1, abs=1e-3)
    assert turned["procrustes_last_layer"] == pytest.approx(0, abs=1e-3)
    noise = torch.Generator().manual_seed(1)
    other = headline(run(Planted(change=lambda states, layer: 5 * torch.randn(states.shape, generator=noise))))
    assert abs(other["cka_last_layer"] or 1) < 0.15
    assert (other["procrustes_last_layer"] or 0) > 1


def test_a_variant_without_some_layers_is_compared_under_original_numbers() -> None:
    found = run(Planted(layers=(0, 2)))
    for kind in ("texts", "tokens"):
        told = comparison(found, kind)
        assert (told["layers"], told["teacher_layers"]) == ([0, 1, 3], [0, 1, 2, 3])
        for row, same in enumerate((0, 1, 3)):
            assert told["cka"][row][same] == pytest.approx(1, abs=1e-4)
            assert told["cka"][row][2] < 0.2
            assert [at for at, value in enumerate(told["procrustes"][row]) if value is not None] == [same]
    assert headline(found)["cka_mean_same_layer"] == pytest.approx(1, abs=1e-4)
    shallow = run(Planted(layers=(0,)))  # the last layer against the teacher's last, another one
    assert abs(headline(shallow)["cka_last_layer"] or 1) < 0.2
    assert headline(shallow)["cka_mean_same_layer"] == pytest.approx(1, abs=1e-4)
    assert comparison(shallow, "texts")["svcca"][1][3] is not None


def test_every_pair_is_there_when_asked_for() -> None:
    found = comparison(run(Planted(), every_pair=True, texts=TEXTS[:40]), "texts")
    assert all(value is not None for name in ("svcca", "procrustes") for row in found[name] for value in row)


@pytest.mark.parametrize("left", [False, True])
def test_padding_on_either_side_never_counts(left: bool) -> None:
    """Padding holds NaN, so a figure that touched it would be none."""
    plain = run(Planted(), texts=TEXTS[:60])
    padded = run(Planted(padding=9, left=left), texts=TEXTS[:60])
    assert headline(padded) == pytest.approx(headline(plain), abs=1e-6)
    assert None not in headline(padded).values()


def test_tokens_are_drawn_without_separators_and_at_most_as_many_as_asked() -> None:
    found = run(Planted(), tokens_per_text=3, texts=TEXTS[:80])
    expected = sum(min(3, len(each.split())) for each in TEXTS[:80])
    assert {metric.name: metric.n for metric in found.metrics}[
        "intrinsic_dimension_last_layer"
    ] == 80  # one of each text
    assert found.details["n_tokens"] == comparison(found, "tokens")["n"] == expected
    assert abs(headline(found)["anisotropy_last_layer"] or 1) < 0.1  # with the two separators a text it is far from 0
    one_way = run(Planted(change=lambda states, layer: states[:, :1].abs() * FIXED), texts=TEXTS[:80])
    assert headline(one_way)["anisotropy_last_layer"] == pytest.approx(1, abs=1e-5)
    assert headline(one_way)["isotropy_last_layer"] == pytest.approx(0, abs=1e-5)


def test_the_draw_depends_on_the_row_and_not_on_its_batch() -> None:
    whole = layer_vectors(Planted(), TEXTS[:20], list(range(20)), 2, seed=4)
    part = layer_vectors(Planted(padding=3), TEXTS[10:20], list(range(10, 20)), 2, seed=4)
    states, owners = whole.of_texts(torch.arange(20) >= 10)
    torch.testing.assert_close(states, part.tokens)
    assert (owners - 10).tolist() == part.owners.tolist()
    assert first_of_each(part.owners).tolist() == list(range(0, 20, 2))
    assert part.ids[3] == [1, *(hash_of(word) for word in TEXTS[13].split()), 2]


def test_other_widths_compare() -> None:
    wide = run(Planted(change=lambda states, layer: torch.cat([states, 0 * states], 1)))
    assert headline(wide)["cka_last_layer"] == pytest.approx(1, abs=1e-3)
    assert headline(wide)["procrustes_last_layer"] == pytest.approx(0, abs=1e-3)


def test_other_tokens_leave_the_vectors_of_texts_and_say_why() -> None:
    found = run(Planted(known=lambda word: hash_of(word) + 1), texts=TEXTS[:40])
    assert comparison(found, "tokens")["skipped"] == (
        "40 texts are other tokens to this model than to the teacher, which leaves 0 tokens"
    )
    assert comparison(found, "texts")["skipped"] is None
    assert headline(found)["cka_last_layer"] == pytest.approx(1, abs=1e-4)
    assert headline(found)["anisotropy_last_layer"] is not None
    tokens_first = run(Planted(known=lambda word: 9), texts=TEXTS[:40], vectors=["tokens"])
    assert set(headline(tokens_first)) == {
        f"{name}_last_layer" for name in ("anisotropy", "isotropy", "intrinsic_dimension")
    }


def test_texts_that_are_the_same_tokens_are_compared_where_others_are_not() -> None:
    lost = {TEXTS[3].split()[0], TEXTS[7].split()[0]}
    found = comparison(
        run(Planted(known=lambda word: 0 if word in lost else hash_of(word)), texts=TEXTS[:40]), "tokens"
    )
    assert found["texts_of_other_tokens"] == 2
    assert found["n"] == sum(min(8, len(each.split())) for at, each in enumerate(TEXTS[:40]) if at not in (3, 7))
    assert found["cka"][-1][-1] == pytest.approx(1, abs=1e-4)


def test_a_cut_vocabulary_is_read_in_original_ids(tmp_path: Path) -> None:
    config = {"model_type": "bert", "num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 2}
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 2, "vocab_size": 3}))
    edits = [{"edit": "keep_vocab", "tokens": "0,5,7", "of": 9}]
    model = Reader()
    model.artifact = Artifact(tmp_path, "k", "torch", "text-classification", "bert", edits)
    assert list(original_ids(model) or ()) == [0, 5, 7]
    assert original_ids(Reader()) is None


def test_the_interval_is_there_with_enough_texts_and_holds_the_value() -> None:
    noise = torch.Generator().manual_seed(2)
    noisy = Planted(change=lambda states, layer: states + 3 * torch.randn(states.shape, generator=noise))
    cka = run(noisy).metrics[0]
    assert cka.name == "cka_last_layer"
    assert cka.low is not None
    assert cka.high is not None
    assert 0.1 < cka.low < cka.value < cka.high < 1
    assert cka.high - cka.low < 0.5


def test_large_models_have_evenly_spaced_layers_and_the_same_ones_in_both() -> None:
    assert chosen_layers(range(25), range(25), 5) == ([0, 6, 12, 18, 24],) * 2
    own, theirs = chosen_layers([0, 2, 5], range(13), 6)
    assert own == [0, 2, 5]
    assert set(theirs) >= {0, 2, 5, 12}
    assert len(theirs) == 6
    assert chosen_layers([0, 1], [0, 1, 2], 13) == ([0, 1], [0, 1, 2])


def test_too_few_rows_and_blank_texts_have_a_reason() -> None:
    assert run(Planted(), texts=TEXTS[:9]).skipped == "9 test rows; states are compared on 10 at least"
    blank = run(Planted(), texts=[""] * 12)
    assert comparison(blank, "tokens")["skipped"] == "0 tokens; states are compared on 10 at least"
    assert headline(blank)["cka_last_layer"] is None  # all texts are the same: nothing varies
    assert blank.details["shapes"] == []


def test_both_models_must_show_their_states() -> None:
    graph = Classifier(lambda text: [1.0, 0.0])
    with pytest.raises(NotGiven, match="logits only"):
        run(graph)
    with pytest.raises(NotGiven, match="logits only"):
        run(Planted(), teacher=graph)


def test_a_model_with_other_states_than_it_has_layers_is_an_error() -> None:
    model = Planted()
    model.layers = (0, 1, 2, 3)
    model._hidden = lambda *given: Planted._hidden(Planted(), *given)  # type: ignore[method-assign]
    with pytest.raises(AssayError, match="4 hidden states, expected 5"):
        run(model)


def test_a_pruned_model_keeps_its_lower_layers_and_loses_none_of_them(
    tiny_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    """Layers below a removed one see the same input: they stay as they were, and those above do not."""
    source = tiny_artifact(layers=3)
    pruned = carry_out(tmp_path, source, [("prune_layers", {"layers": [0, 2]})])
    texts = [f"the {WORDS[n % 14]} film {WORDS[n * 5 % 13]} {WORDS[n * 3 % 11]}" for n in range(60)]
    model, teacher = open_predictor(pruned, 32), open_predictor(source, 32)
    found = SimilarityProbe().run(model, context(split(texts), teacher=teacher))
    told = comparison(found, "tokens")
    assert told["layers"] == [0, 1, 3]
    assert [told["cka"][0][0], told["cka"][1][1]] == pytest.approx([1, 1], abs=1e-4)
    assert told["cka"][2][3] < 0.99
    assert headline(found)["cka_last_layer"] < 0.99
