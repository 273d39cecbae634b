"""What each layer tells of single words: part of speech, entities, chunks, from files of tagged sentences.

A word's vector is the mean of its pieces, or its first piece. A linear classifier is fitted to each layer
(`probe/classifiers.py`), or one with a hidden layer. Beside its accuracy on other sentences stand the commonest tag,
each word's commonest tag, and the control task of Hewitt and Liang 2019, random tags by word type, whose accuracy taken
off is the selectivity. A variant is compared with the teacher word by word. Words that the tokenizer drops, or that are
not whole within the tokens a model reads, are counted and left out.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from assay.core.errors import SettingError
from assay.core.metric import Metric
from probe.against_teacher import change_metric, with_teacher
from probe.balance import SplitName
from probe.probe import Findings, Needs, Probe, ProbeContext
from probe.silver.trees import is_silver, parser_of, sentences_of, source_file
from probe.tagged_words import TaggedSentence, Tags, draw_sentences, read_tagged, tagged
from probe.word_answers import LayerAnswers, Reading, Words, change_of, changes
from probe.word_pieces import Pieces
from probe.word_tags import control_tags, most_frequent, share_by_word

if TYPE_CHECKING:
    from assay.core.model.predict import Predictor
    from probe.word_pieces import WordStates


class TokensProbe(Probe):
    """`samples` sentences of the file `train` fit the classifiers, `test_samples` of the file `test` score them.

    `tags` are a column of CoNLL-U files, or the last one of files with a word and its tag a line. In place of a file
    `silver` has the job's own rows of that split tagged by a parser."""

    needs: ClassVar[Needs] = "states"

    train: str = Field(min_length=1)
    test: str = Field(min_length=1)
    tags: Tags = "upos"
    samples: PositiveInt = 1000
    test_samples: PositiveInt = 500
    pieces: Pieces = "mean"
    classifier: Literal["linear", "mlp"] = "linear"
    hidden: PositiveInt = 64

    def inputs(self) -> list[Path]:
        return [source_file(self.train, "tokens.train"), source_file(self.test, "tokens.test")]

    def silver(self) -> str | None:
        return parser_of(self.train, self.test)

    def check(self) -> None:
        for address, path in zip((self.train, self.test), self.inputs(), strict=True):
            if not is_silver(address):
                read_tagged(path, self.tags)
            elif self.tags == "last_column":
                raise SettingError("tokens.tags", "last_column is of files; the parser gives upos, xpos or deprel")

    def tiny(self) -> TokensProbe:
        return self.model_copy(update={"samples": 32, "test_samples": 16})

    def run(self, model: Predictor, ctx: ProbeContext) -> Findings:
        """Headline metrics are those of the last layer, and its difference to the teacher's last; `details` hold all
        layers. NotGiven where the tokenizer does not tell where its tokens stand."""
        train, test = (Words.of(sentences) for sentences in self._sentences(ctx))
        own, theirs = with_teacher(self, model, ctx, lambda of: self._examine(of, ctx, train, test))
        found = self._told(own, train, test) | {"teacher": changes(own, theirs, test) if theirs else []}
        return Findings(_headline(found, own, theirs, test), {"tasks": [found]})

    def _sentences(self, ctx: ProbeContext) -> tuple[list[TaggedSentence], list[TaggedSentence]]:
        train = self._drawn(ctx, "train", self.train, self.samples)
        known = {sentence.words for sentence in train}
        return train, self._drawn(ctx, "test", self.test, self.test_samples, known)

    def _drawn(
        self, ctx: ProbeContext, split: SplitName, address: str, count: int, known: Collection[tuple[str, ...]] = ()
    ) -> list[TaggedSentence]:
        setting = f"tokens.{split}"
        if is_silver(address) and self.tags != "last_column":
            parsed = sentences_of(address, setting, ctx, split, count, known=known)
            return [tagged(each, self.tags) for each in parsed]
        return draw_sentences(read_tagged(source_file(address, setting), self.tags), count, ctx.seed)

    def _examine(self, model: Predictor, ctx: ProbeContext, train: Words, test: Words) -> Reading:
        from assay.core.model.at_once import at_once, one_torch_thread_each
        from probe.fit_memory import check_fit_memory
        from probe.word_pieces import WordStates

        box = ctx.states.of(model)
        check_fit_memory(box, [" ".join(each) for each in train.sentences[:1]], len(train.words) + len(test.words))
        parts = [(words, WordStates.read(box, words.sentences)) for words in (train, test)]
        rows = [words.known & states.words.whole for words, states in parts]
        labels = [
            [words.tags[kept], control_tags(words.words[kept].tolist(), train.tags[train.known], ctx.seed)]
            for (words, _), kept in zip(parts, rows, strict=True)
        ]
        reading = Reading(rows[0], rows[1], [states.words for _, states in parts], {})
        if reading.obstacle or len(np.unique(labels[0][0])) < 2:
            return reading
        fit = partial(self._fit, parts=parts, rows=rows, labels=labels, seed=ctx.seed)
        with one_torch_thread_each() as workers:
            fitted = at_once(fit, range(len(box.numbers)), workers)
            reading.layers.update(zip(box.numbers, fitted, strict=True))
        return reading

    def _fit(
        self,
        position: int,
        parts: list[tuple[Words, WordStates]],
        rows: list[np.ndarray],
        labels: list[list[np.ndarray]],
        seed: int,
    ) -> LayerAnswers:
        """Of one layer, whose vectors are in memory only meanwhile."""
        from probe.classifiers import fit_classifiers, standardise
        from probe.mlp import fit_mlp

        vectors = (
            states.layer(position, self.pieces)[kept[states.words.whole]]
            for (_, states), kept in zip(parts, rows, strict=True)
        )
        train, test = standardise(*vectors)
        if self.classifier == "linear":
            fits = fit_classifiers(train, labels[0])
            answers, converged = [fit.predict(test) for fit in fits], all(fit.converged for fit in fits)
        else:
            answers, converged = [fit_mlp(train, each, self.hidden, seed).predict(test) for each in labels[0]], None
        return LayerAnswers(answers[0], float((answers[1] == labels[1][1]).mean()), converged)

    def _told(self, reading: Reading, train: Words, test: Words) -> dict[str, Any]:
        """Plain data: the baselines on this model's words, and its layers."""
        fitted, known = train.tags[reading.train].tolist(), train.words[reading.train].tolist()
        tags, words, sentences = (part[reading.test] for part in (test.tags, test.words, test.owners))
        obstacle = reading.obstacle or ("" if len(set(fitted)) > 1 else f"all {len(fitted)} train words have one tag")
        return {
            "task": self.tags if self.tags != "last_column" else "tags",
            "of": "words",
            "classifier": self.classifier,
            "classes": len(set(fitted)),
            "chance": None if obstacle else 1 / len(set(fitted)),
            "majority": None if obstacle else float((tags == most_frequent(fitted)).mean()),
            "most_frequent_tag": None if obstacle else share_by_word(known, fitted, words.tolist(), tags.tolist()),
            "n_train": len(fitted),
            "n_test": len(tags),
            "left_out": [
                {"vanished": aligned.vanished, "cut": aligned.cut, "untagged": int((~part.known).sum())}
                for aligned, part in zip(reading.words, (train, test), strict=True)
            ],
            "skipped": f"not trainable: {obstacle}" if obstacle else None,
            "layers": [each.told(number, tags, sentences) for number, each in reading.layers.items()],
        }


def _headline(found: dict[str, Any], own: Reading, theirs: Reading | None, test: Words) -> list[Metric]:
    if found["skipped"]:
        return []
    last, name, n = found["layers"][-1], found["task"], found["n_test"]
    metrics = [
        Metric(f"{name}_accuracy", last["accuracy"], "fraction", None, n, last["low"], last["high"]),
        Metric(f"{name}_selectivity", last["selectivity"], "fraction", None, n),
    ]
    if theirs and theirs.layers:
        change = change_of(own, theirs, max(own.layers), max(theirs.layers), test)
        metrics.append(change_metric(f"{name}_change", change))
    return metrics
